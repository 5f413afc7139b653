package demo

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/juju/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// podStage is a stage whose operators are pods.
type podStage struct {
	*stage
	*pods
}

// podStory is told of a cluster.
func podStory(p *pods) []step {
	on := func(play func(podStage, context.Context) error) func(*stage, context.Context) error {
		return func(s *stage, ctx context.Context) error { return play(podStage{s, p}, ctx) }
	}
	return []step{
		{"four applications of format 1 come up as restricted pods and log in", (*stage).comeUpWithout},
		{"one of format 2 is not ours and is let alone", (*stage).ignoreModern},
		{"one that asks for unknown storage fails alone; the report says why", (*stage).failAlone},
		{"a pod is deleted: another one logs in with the same password", on(podStage.deletePod)},
		{"a container is killed on the node: it starts again in its pod", on(podStage.killContainer)},
		{"a StatefulSet is deleted: it is made again", on(podStage.deleteSet)},
		{"addresses in another order roll nothing, another address rolls one pod", on(podStage.changeAddress)},
		{"a certificate is due: its pod is replaced, and has another one and the old password", on(podStage.renewCertificate)},
		{"kill -9 of the agent: the pods go on, and the next agent changes nothing", on(podStage.killAgentOfPods)},
		{"another CA: every pod is replaced, with a new certificate and the old password", on(podStage.replaceCA)},
		{"a dying application keeps its operator", (*stage).keepDying},
		{"a dead one loses it, and leaves nothing in the namespace", (*stage).removeDead},
		{"SIGTERM stops the agent and no pod; two others share a controller", on(podStage.shareController)},
		{"kill -9 of the one that leads: the other goes on", on(podStage.killLeader)},
		{"no secret is in a log, a report, an object, an argument or an environment", on(podStage.keepPodSecrets)},
		{"no application is left, and nothing in the namespace", on(podStage.removeAll)},
	}
}

func (s podStage) deletePod(ctx context.Context) error {
	pod, err := s.pod(ctx, database)
	if err != nil {
		return err
	}
	return s.comesBack(ctx, database, func() error {
		return s.client.CoreV1().Pods(s.namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{})
	})
}

func (s podStage) killContainer(ctx context.Context) error {
	pid, err := s.process(database)
	if err != nil {
		return err
	}
	before := podOf(s.operators[database])
	if err := s.comesBack(ctx, database, func() error { return syscall.Kill(pid, syscall.SIGKILL) }); err != nil {
		return err
	}
	if podOf(s.operators[database]) != before {
		return errors.Errorf("%s has another pod", database)
	}
	return nil
}

func (s podStage) deleteSet(ctx context.Context) error {
	sets := s.client.AppsV1().StatefulSets(s.namespace)
	old, err := sets.Get(ctx, metrics+"-operator", metav1.GetOptions{})
	if err != nil {
		return errors.Trace(err)
	}
	if err := s.comesBack(ctx, metrics, func() error {
		return sets.Delete(ctx, old.Name, metav1.DeleteOptions{})
	}); err != nil {
		return err
	}
	made, err := sets.Get(ctx, old.Name, metav1.GetOptions{})
	if err != nil {
		return errors.Trace(err)
	}
	if made.UID == old.UID {
		return errors.Errorf("the set of %s is the same", metrics)
	}
	return nil
}

func (s podStage) changeAddress(ctx context.Context) error {
	own := s.last.Manifolds.Controller.Report.Address
	change := func(more string, addresses ...string) error {
		list, err := json.Marshal(addresses)
		if err != nil {
			return errors.Trace(err)
		}
		return s.write("applications/"+database+"/application.yaml", alive+"addresses: "+string(list)+"\n"+more)
	}
	// Nobody is at the second one.
	const nowhere = "192.0.2.1:17070"
	if err := s.comesBack(ctx, database, func() error { return change("", own, nowhere) }); err != nil {
		return err
	}
	// A tag comes with the other order, to see that it was looked at.
	if err := change("tags: {owner: demo}\n", nowhere, own); err != nil {
		return err
	}
	if err := s.until(ctx, func(*view) error {
		set, err := s.client.AppsV1().StatefulSets(s.namespace).Get(ctx, database+"-operator", metav1.GetOptions{})
		if err == nil && set.Annotations["owner"] != "demo" {
			err = errors.Errorf("the set of %s has no new tag", database)
		}
		return err
	}); err != nil {
		return err
	}
	return s.stay(ctx, living()...)
}

// renewCertificate has an application come whose first certificate does not last.
func (s podStage) renewCertificate(ctx context.Context) error {
	if err := s.write("model.yaml", settings+"certificate-life: 45s\n"); err != nil {
		return err
	}
	if err := s.deploy(proxy, alive, v1(proxy), ""); err != nil {
		return err
	}
	if err := s.until(ctx, func(v *view) error {
		if p := v.application(proxy).Provisioning; p != "provisioned" {
			return errors.Errorf("%s is %q", proxy, p)
		}
		return nil
	}); err != nil {
		return err
	}
	// The next one lasts.
	if err := s.write("model.yaml", settings); err != nil {
		return err
	}
	if err := s.expectActive(ctx, proxy); err != nil {
		return err
	}
	var err error
	if s.keys[proxy], err = s.readCredentials(ctx, proxy); err != nil {
		return err
	}
	was := s.last.application(proxy).Operator.Certificate
	if err := s.comesBack(ctx, proxy, func() error { return nil }); err != nil {
		return err
	}
	if s.last.application(proxy).Operator.Certificate == was {
		return errors.Errorf("%s has the same certificate", proxy)
	}
	return s.stay(ctx, living()...)
}

// versions are those of everything in the namespace that an agent writes.
func (s podStage) versions(ctx context.Context) (map[types.UID]string, error) {
	versions := map[types.UID]string{}
	note := func(m metav1.ObjectMeta) { versions[m.UID] = m.Name + " " + m.ResourceVersion }
	secrets, err := s.client.CoreV1().Secrets(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, errors.Trace(err)
	}
	for _, o := range secrets.Items {
		note(o.ObjectMeta)
	}
	services, err := s.client.CoreV1().Services(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, errors.Trace(err)
	}
	for _, o := range services.Items {
		note(o.ObjectMeta)
	}
	sets, err := s.client.AppsV1().StatefulSets(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, errors.Trace(err)
	}
	for _, o := range sets.Items {
		note(o.ObjectMeta)
	}
	return versions, nil
}

func (s podStage) killAgentOfPods(ctx context.Context) error {
	before, err := s.versions(ctx)
	if err != nil {
		return err
	}
	_ = s.signalAgent(ctx, syscall.SIGKILL)
	if err := s.adopt(ctx, s.startAgent); err != nil {
		return err
	}
	return s.unchanged(ctx, before)
}

// unchanged checks that nothing was written since.
func (s podStage) unchanged(ctx context.Context, before map[types.UID]string) error {
	now, err := s.versions(ctx)
	if err != nil {
		return err
	}
	for uid, was := range before {
		if now[uid] != was {
			return errors.Errorf("what was %s is %q", was, now[uid])
		}
	}
	if len(now) != len(before) {
		return errors.Errorf("%d objects, where there were %d", len(now), len(before))
	}
	return nil
}

func (s podStage) replaceCA(ctx context.Context) error {
	if err := s.signalAgent(ctx, syscall.SIGTERM); err != nil {
		return errors.Annotate(err, "the agent's end")
	}
	if err := os.Remove(filepath.Join(s.stateDir(), "ca.pem")); err != nil {
		return errors.Trace(err)
	}
	if err := s.startAgent(); err != nil {
		return err
	}
	for _, app := range living() {
		old := s.operators[app]
		// Which shows a certificate of the new CA.
		if err := s.expectActive(ctx, app); err != nil {
			return err
		}
		if podOf(s.operators[app]) == podOf(old) {
			return errors.Errorf("%s has the same pod", app)
		}
		if err := s.samePassword(ctx, app); err != nil {
			return err
		}
	}
	return nil
}

// The agents that share a controller, and their lease; and an application that comes
// when one of them is gone.
const (
	late  = "memcached"
	lease = "sutler-demo"
	first = "one"
	other = "two"
)

func (s podStage) shareController(ctx context.Context) error {
	if err := s.signalAgent(ctx, syscall.SIGTERM); err != nil {
		return errors.Annotate(err, "the agent's end")
	}
	before, err := s.versions(ctx)
	if err != nil {
		return err
	}
	if err := s.adopt(ctx, func() error { return s.startJoined(ctx) }); err != nil {
		return err
	}
	if err := s.until(ctx, func(*view) error { return s.oneLeads() }); err != nil {
		return err
	}
	return s.unchanged(ctx, before)
}

// startJoined starts a controller and two agents, of which each has a report.
func (s podStage) startJoined(ctx context.Context) (err error) {
	s.agent, err = s.start(append([]string{"controller"}, s.controllerFlags()...)...)
	if err != nil {
		return err
	}
	if err := s.until(ctx, func(*view) error {
		_, err := os.Stat(filepath.Join(s.stateDir(), "facade.sock"))
		return err
	}); err != nil {
		return err
	}
	for _, name := range []string{first, other} {
		s.joined[name], err = s.start(append(s.clusterFlags(), "--join", name, "--leader-lease", lease)...)
		if err != nil {
			return err
		}
	}
	return nil
}

// oneLeads checks that an agent leads, and that the other waits.
func (s podStage) oneLeads() error {
	if s.leader == "" {
		return errors.New("nobody leads")
	}
	for name, waits := range s.waiting {
		if name != s.leader && !waits {
			return errors.Errorf("%s leads, and %s does not wait", s.leader, name)
		}
	}
	return nil
}

func (s podStage) killLeader(ctx context.Context) error {
	old := s.leader
	_ = s.joined[old].signal(ctx, syscall.SIGKILL)
	delete(s.joined, old)
	if err := s.adopt(ctx, func() error {
		return s.until(ctx, func(*view) error {
			if s.leader == "" || s.leader == old {
				return errors.New("nobody has taken over")
			}
			return nil
		})
	}); err != nil {
		return err
	}
	// And it works.
	if err := s.deploy(late, alive, v1(late), ""); err != nil {
		return err
	}
	return s.expectActive(ctx, late)
}

func (s podStage) keepPodSecrets(ctx context.Context) error {
	c, err := s.readCredentials(ctx, late)
	if err != nil {
		return err
	}
	s.keys[late] = c
	return s.findSecrets(ctx)
}

func (s podStage) removeAll(ctx context.Context) error {
	entries, err := os.ReadDir(filepath.Join(s.dir, "applications"))
	if err != nil {
		return errors.Trace(err)
	}
	for _, entry := range entries {
		if err := os.RemoveAll(filepath.Join(s.dir, "applications", entry.Name())); err != nil {
			return errors.Trace(err)
		}
	}
	if err := s.until(ctx, func(*view) error {
		left, err := s.left(ctx)
		if err == nil && len(left) != 1 {
			err = errors.Errorf("left: %s", strings.Join(left, ", "))
		}
		return err
	}); err != nil {
		return err
	}
	for _, c := range s.joined {
		if err := c.signal(ctx, syscall.SIGTERM); err != nil {
			return errors.Annotate(err, "the end of an agent")
		}
	}
	if err := s.signalAgent(ctx, syscall.SIGTERM); err != nil {
		return errors.Annotate(err, "the end of the controller")
	}
	// Which is there for the next leader.
	leases := s.client.CoordinationV1().Leases(s.namespace)
	if err := leases.Delete(ctx, lease, metav1.DeleteOptions{}); err != nil {
		return errors.Trace(err)
	}
	left, err := s.left(ctx)
	if err == nil && len(left) > 0 {
		err = errors.Errorf("left: %s", strings.Join(left, ", "))
	}
	return err
}
