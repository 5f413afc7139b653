// Package containersetup is the container-setup handler: a worker that prepares
// a machine for containers the first time somebody asks for one there, and then
// starts the provisioner that creates them.
//
// An agent's author gives it a [facade.Machine] (the controller), a [Backend]
// for each type of container that this host can have, the machine lock, and
// what sees and bridges the host's network; and either makes a [Worker] with
// [New] or wires a [Manifold] into the agent's dependency engine.
//
// # How it works
//
// The worker watches the machine's containers. The first one of a type has that
// type prepared, by a child of its own, so that a slow installation of one type
// delays neither another nor any event:
//
//  1. the type's settings are read from the controller;
//  2. under the machine lock, the back end's [Initialiser] prepares the host;
//  3. the host's network, which may have changed, is observed and published;
//  4. the back end's [Broker] is made: only now, since before there may have
//     been nothing to connect to;
//  5. the type's provisioner is started, as a child of this worker. When it dies,
//     it alone is started again.
//
// Each phase is retried by itself, with a back-off of its own, and none is
// repeated once it is done. After a restart of the agent the same way is gone
// again: initialisers probe, and do nothing twice.
//
// When every supported type is prepared, the containers are no longer watched;
// the worker lives on as the provisioners' parent.
//
// # What users see
//
// While a type is being prepared or fails, the status of the containers that
// wait for it tells the phase, the error and the next attempt; it is cleared
// once the type is ready. A container of a type that this machine does not
// support, or that has no back end here, is told so, once, and again when somebody
// asks for it again. One whose status is error, as an earlier agent may have left
// it, is left so until somebody asks for it again by setting it to anything else;
// nobody asks by starting an agent. The report tells the same to whoever runs the
// agent.
//
// # The machine lock
//
// It is held while the host is changed, and for nothing else: no controller is
// asked meanwhile. It is given back on every path, a panic included. Package
// machinelock has one that works between processes.
//
// # What ends the worker
//
// Kill, which is no error wherever it strikes; a watcher that ends; a facade that
// says that its connection is lost; and a machine that supports no containers at
// all, after whoever asked for one was told. A failed preparation never does.
//
// # Testing
//
// The package fakes has a machine's controller and a host in memory, which fail
// on demand. Whoever writes a back end proves it with backendtest.
package containersetup
