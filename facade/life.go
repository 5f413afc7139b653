package facade

import "github.com/juju/errors"

// Life tells where an entity of the model is in its life. It only moves
// forward: alive, dying, dead, and then the entity is not found any more.
type Life string

const (
	// Alive is an entity that should be kept running.
	Alive Life = "alive"
	// Dying is an entity that is being removed and still needs its operator.
	Dying Life = "dying"
	// Dead is an entity that is only waiting to be cleaned up.
	Dead Life = "dead"
)

// Validate returns an errors.NotValid for anything but the three known values;
// the empty string is none of them.
func (l Life) Validate() error {
	switch l {
	case Alive, Dying, Dead:
		return nil
	}
	return errors.NotValidf("life %q (want alive, dying or dead)", truncate(string(l)))
}

// truncate bounds what an error repeats of its input.
func truncate(s string) string {
	const limit = 64
	if len(s) <= limit {
		return s
	}
	return s[:limit] + "..."
}
