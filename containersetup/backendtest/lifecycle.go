package backendtest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
)

func lifeCycleChecks() []Check {
	return []Check{
		{Name: "StartedInstanceRunsAndIsListed", run: checkStart},
		{Name: "SecondStartReturnsTheSameAndMakesNone", run: checkSecondStart},
		{Name: "StoppedInstanceIsGone", run: checkStop},
		{Name: "StartAfterStopMakesANewOne", run: checkStartAgain},
		{Name: "StoppingTheUnknownIsSuccess", run: checkStopUnknown},
		{Name: "StopResultsAreInOrder", run: checkStopOrder},
		{Name: "BrokersSeeTheSameInstances", run: checkTwoBrokers},
		{Name: "RestartKeepsEverything", needs: needsRestart, run: checkRestart},
		{Name: "OnlyOnesOwnInstancesAreListed", needs: needsForeign, run: checkForeign},
		{Name: "NestedContainersHaveInstancesOfTheirOwn", run: checkNested},
		{Name: "LostAnswerIsFoundAgain", run: checkLostAnswer},
		{Name: "LostReplyOfTheDaemonMakesNoSecond", needs: needsLoseReply, run: checkLoseReply},
	}
}

// checkStart also holds the answer to what was asked for: what is not known may
// be left out, and nothing may be less.
func checkStart(c *checker) {
	b := c.broker()
	id := c.id(0)
	c.gone(b, id)
	result := c.start(b, id)
	c.runs(b, id, result.InstanceID)

	asked := c.params(id)
	least := func(what string, got, want uint64) {
		if got != 0 && got < want {
			c.Errorf("Hardware.%s is %d, and %d was asked for", what, got, want)
		}
	}
	least("Cores", result.Hardware.Cores, asked.Info.Constraints.Cores)
	least("Memory", result.Hardware.Memory, asked.Info.Constraints.Memory)
	least("RootDisk", result.Hardware.RootDisk, asked.Info.Constraints.RootDisk)
	for _, want := range asked.Interfaces {
		at := slices.IndexFunc(result.Interfaces, func(i facade.NetworkInterface) bool { return i.Name == want.Name })
		switch {
		case at < 0:
			c.Errorf("interface %q was asked for, and is not there", want.Name)
		case want.MAC != "" && !strings.EqualFold(result.Interfaces[at].MAC, want.MAC):
			c.Errorf("interface %q has MAC %q, not %q", want.Name, result.Interfaces[at].MAC, want.MAC)
		}
	}
	for n, i := range result.Interfaces {
		if err := i.Validate(); err != nil {
			c.Errorf("Interfaces[%d]: %v", n, err)
		}
	}
}

// checkSecondStart is a provisioner that could not record what it had started.
func checkSecondStart(c *checker) {
	b := c.broker()
	id := c.id(0)
	first := c.start(b, id)
	for range 2 {
		if again := c.start(b, id); again.InstanceID != first.InstanceID {
			c.Errorf("StartInstance returns %q, and %q the first time", again.InstanceID, first.InstanceID)
		}
	}
	c.runs(b, id, first.InstanceID)
}

// checkStop has another one beside, which must stay.
func checkStop(c *checker) {
	b := c.broker()
	id, other := c.id(0), c.id(1)
	result, kept := c.start(b, id), c.start(b, other)
	if result.InstanceID == kept.InstanceID {
		c.fatalf("both containers have the instance %q", kept.InstanceID)
	}
	c.stop(b, result.InstanceID)
	c.gone(b, id)
	c.runs(b, other, kept.InstanceID)
	c.stop(b, result.InstanceID) // again
	c.runs(b, other, kept.InstanceID)
}

func checkStartAgain(c *checker) {
	b := c.broker()
	id := c.id(0)
	for range 2 {
		result := c.start(b, id)
		c.runs(b, id, result.InstanceID)
		c.stop(b, result.InstanceID)
		c.gone(b, id)
	}
	c.runs(b, id, c.start(b, id).InstanceID)
}

// unknown are ids of no instance; some would do harm as a path or an argument.
func unknown(prefix string) []container.InstanceID {
	out := []container.InstanceID{"", " ", ".", "..", "../x", "x/y", "/", "-x", "--all", "*", "a\nb", "a\x00b", "$(x)", "a;b", "ä"}
	return append(out, container.InstanceID(prefix+"none"), container.InstanceID(strings.Repeat("x", 300)))
}

func checkStopUnknown(c *checker) {
	b := c.broker()
	id := c.id(0)
	kept := c.start(b, id).InstanceID
	if got := c.tryStop(b); len(got) != 0 {
		c.Errorf("StopInstances of none returns %d results", len(got))
	}
	for _, instance := range unknown(string(kept) + "-") {
		for _, err := range c.tryStop(b, instance) {
			if err != nil {
				c.Errorf("StopInstances of %q, which is not there: %v", instance, err)
			}
		}
	}
	c.runs(b, id, kept)
}

// checkStopOrder mixes what is there with what is not, and names one twice: each
// gets its own result.
func checkStopOrder(c *checker) {
	b := c.broker()
	var ids []container.InstanceID
	for i := range 3 {
		ids = append(ids, c.start(b, c.id(i)).InstanceID)
	}
	none := container.InstanceID(string(ids[0]) + "-none")
	for i, err := range c.tryStop(b, none, ids[2], none, ids[0], ids[2]) {
		if err != nil {
			c.Errorf("result %d of StopInstances: %v", i, err)
		}
	}
	c.gone(b, c.id(0))
	c.gone(b, c.id(2))
	c.runs(b, c.id(1), ids[1])
}

// checkTwoBrokers has two overlap, as the old and the new provisioner of a type
// may for a while.
func checkTwoBrokers(c *checker) {
	first, second := c.broker(), c.broker()
	id := c.id(0)
	result := c.start(first, id)
	c.runs(second, id, result.InstanceID)
	if again := c.start(second, id); again.InstanceID != result.InstanceID {
		c.Errorf("the second broker starts %q, the first had %q", again.InstanceID, result.InstanceID)
	}
	c.stop(second, result.InstanceID)
	c.gone(first, id)
}

// checkRestart is what adoption after a restart lives on.
func checkRestart(c *checker) {
	b := c.broker()
	id, stopped, next := c.id(0), c.id(1), c.id(2)
	kept := c.start(b, id).InstanceID
	c.stop(b, c.start(b, stopped).InstanceID)

	c.restart()
	b = c.broker()
	c.runs(b, id, kept)
	c.gone(b, stopped)
	if again := c.start(b, id); again.InstanceID != kept {
		c.Errorf("StartInstance after the restart returns %q, and %q before", again.InstanceID, kept)
	}
	c.runs(b, next, c.start(b, next).InstanceID)
	c.stop(b, kept)
	c.gone(b, id)
}

// checkForeign holds the list to this model: a provisioner may take away what is
// listed and not known.
func checkForeign(c *checker) {
	b := c.broker()
	id := c.id(0)
	mine := c.start(b, id).InstanceID
	foreign, err := c.Foreign()
	if err != nil {
		c.fatalf("Foreign: %v", err)
	}
	listed := func() {
		c.Helper()
		if slices.ContainsFunc(c.list(b), func(i container.Instance) bool { return i.ID == foreign }) {
			c.Errorf("AllInstances lists %q, which is another model's", foreign)
		}
	}
	listed()
	c.runs(b, id, mine)
	if c.Restart != nil {
		c.restart()
		b = c.broker()
		listed()
		c.runs(b, id, mine)
	}
}

// checkNested has containers whose ids end alike: one on the machine, one on a
// container of the machine.
func checkNested(c *checker) {
	b := c.broker()
	plain := c.id(0)
	nested := c.named(fmt.Sprintf("%s/%s/%d", c.id(1), c.Type, c.base))
	longer := c.named(plain + "0")
	instances := make(map[string]container.InstanceID)
	for _, id := range []string{plain, nested, longer} {
		instances[id] = c.start(b, id).InstanceID
	}
	for id, instance := range instances {
		for other, same := range instances {
			if id != other && instance == same {
				c.fatalf("%q and %q have the instance %q", id, other, instance)
			}
		}
		c.runs(b, id, instance)
	}
	c.stop(b, instances[nested])
	c.runs(b, plain, instances[plain])
	c.runs(b, longer, instances[longer])
}

// checkLostAnswer is an agent that was killed before it heard the answer: it
// finds the instance by its container.
func checkLostAnswer(c *checker) {
	b := c.broker()
	id := c.id(0)
	c.start(b, id)
	if c.Restart != nil {
		c.restart()
		b = c.broker()
	}
	c.runs(b, id, "")
	found := of(c.list(b), id)
	if len(found) != 1 {
		c.fatalf("%d instances listed of one container", len(found))
	}
	if again := c.start(b, id); again.InstanceID != found[0].ID {
		c.Errorf("StartInstance returns %q, and %q is listed", again.InstanceID, found[0].ID)
	}
	c.stop(b, found[0].ID)
	c.gone(b, id)
}

// checkLoseReply lets the first call fail or find out by itself; the instance
// that the daemon has made must become the container's only one.
func checkLoseReply(c *checker) {
	b := c.broker()
	id := c.id(0)
	if err := c.LoseReply(id); err != nil {
		c.fatalf("LoseReply: %v", err)
	}
	if _, err := c.tryStart(b, id); err != nil {
		c.Logf("StartInstance with a lost reply: %v", err)
	}
	c.restarted(b, id)
}

// restarted starts the container's instance until that succeeds, and waits until
// it is the only one.
func (c *checker) restarted(b container.Broker, id string) {
	c.Helper()
	var result container.StartResult
	c.eventually(fmt.Sprintf("StartInstance(%q) succeeding", id), func() (last string) {
		var err error
		if result, err = c.tryStart(b, id); err != nil {
			return err.Error()
		}
		return ""
	})
	c.runs(b, id, result.InstanceID)
}
