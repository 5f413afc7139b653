// Package containerprovisioner is the task that creates and removes the
// containers of one type on one machine. The container-setup handler starts one
// for each type, once the machine is prepared for it; it may also be used
// alone.
//
// An agent's author gives it a [facade.Containers] (the controller) and a
// [container.Broker] (the back end), and makes a [Worker] with [New].
//
// # How it works
//
// Every container is a key in a queue. Events only mark keys dirty; a pass then
// reads the present state of that one container, decides, and acts. The decision
// is a pure function; see the file decide.go. What matters cannot be lost with
// the worker: an instance that was started and not recorded is found again by
// starting it again, which by the broker's contract makes no second one.
//
// A container's life decides most:
//
//   - alive, without an instance on record: the host is prepared for it, its
//     network interfaces are allocated, its instance is started and recorded.
//   - alive, with one on record: nothing. If that instance is not there, the
//     status says so, and no other is started: what was in it would be lost
//     silently.
//   - dying: nothing; its instance winds it up. One that never started does not
//     start any more.
//   - dead: its instances are stopped, its addresses given back, and it is
//     marked for removal.
//   - not found, though it has an instance: see Harvest modes.
//
// Removal wins over creation at any step: a container is looked at right before
// its instance is started and right after, and whatever was made for one that
// died meanwhile is taken away.
//
// An instance that is there and does not run is left so: somebody stopped it.
// The report counts them.
//
// # Turns
//
// Config.Concurrency instances are being started at once, and as many are being
// stopped; beside that, containers are only looked at. What is dead is stopped
// before what is pending is started: no start begins before every container
// named until then was read, and every dead one among them was tried to stop. A
// stop that takes more than two minutes, or failed, does not hold up the starts.
//
// # Failures
//
// A container whose pass fails waits by itself, with a back-off of its own, and
// delays nobody. An event has it looked at, but does not have what failed
// repeated before its time, since many events are the echo of what is done here.
// A panic in a pass is that container's failure. Every call has a deadline. Only
// the end of a watcher, and a facade that says that its connection is lost, end
// the worker.
//
// Whatever keeps a container from starting counts as an attempt: the
// preparation of the host, provisioning information that is not valid, the
// broker. What does not count is a controller that does not answer in time, a
// container that died or vanished meanwhile, and the end of the worker. After
// each attempt the status says what went wrong, how many attempts are left and
// when the next one is; after the last, it becomes error, and nothing more is
// tried until somebody asks for it by setting it to anything else, such as
// pending. The count does not outlive the worker, but the error does.
//
// A failure to set a status fails nothing else; it is set a little later.
//
// The broker is asked for all instances once for everybody who wants to know at
// the same time, and after a failure not again before a back-off. While it does
// not answer, nothing is stopped, and no instance is called missing; a container
// that never had one is started all the same, since that does not depend on it.
//
// # Harvest modes
//
// The harvest mode says which instances are taken away. Those of dead containers
// are with destroyed (the default) and all. With the others such an instance
// runs on and keeps its addresses, and the container is marked for removal all
// the same. That makes it an instance of which the controller knows nothing, so
// that with unknown it goes after all, once the controller has forgotten the
// container.
//
// Those that the controller does not know are taken away with unknown and all:
// instances whose container it says is not found, and any of a living container
// beside the one on record. It is asked each time, and not before it has told
// for the first time which containers there are. An error is no such answer.
// With the other modes they are reported and left alone. An instance that this
// very worker started for a container that vanished meanwhile counts as one of a
// dead container.
//
// A facade that is a [facade.HarvestWatcher] tells the mode and its changes;
// until it has told the first, nothing is taken away.
//
// # Ids
//
// Only direct children of the machine, of the type, count. Anything else that a
// watcher or the broker names is logged once, reported, and left alone.
//
// # Life cycle and concurrency
//
// [New] starts the worker, Kill and Wait end it, and instances run on. It uses a
// fixed number of goroutines, whatever the number of containers. The facade, the
// broker and the preparer are called from many of them at once.
//
// # Secrets
//
// User data has the type [facade.Secret] and reaches the broker and nothing
// else: no log, error, status, report or metric. Errors of the broker and the
// controller are shown to users, and must not hold secrets.
//
// # Testing
//
// The package fakes has a controller and a host in memory, which fail on demand.
// Under testing/synctest, with clock.WallClock, hours pass in no time.
package containerprovisioner
