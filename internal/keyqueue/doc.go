// Package keyqueue is the queue that the workers' loops are built on: it holds
// keys that are dirty, hands each to one taker at a time, and lets failing ones
// wait by themselves.
//
// # What for
//
// A level-triggered worker needs to know which keys to look at, not what
// happened to them. Events mark keys dirty with [Queue.Add]; any number of
// goroutines call [Queue.Take], look at the key and call [Queue.Done] or
// [Queue.DoneAfter]. However often a key is dirtied before it is taken, it is
// taken once; when it is dirtied while it runs, it runs once more.
//
// # Life of a key
//
//	        Add                   Take
//	Idle ---------->  Queued  ------------>  Running
//	 | ^                ^ ^                   |  |  |
//	 | |    due, or     | |  Done, dirtied    |  |  |
//	 | |      Add       | +-------------------+  |  |
//	 | |                |                        |  |
//	 | |   AddAfter     |       DoneAfter        |  |
//	 | +---------->  Waiting <-------------------+  |
//	 |                                              |
//	 +<---------------------------------------------+
//	                      Done, clean
//
// A key waits either because AddAfter planned a look at it, which any Add brings
// forward, or because DoneAfter put it back, as after a failure: then only an Add
// as [Fresh] cuts its pause short.
//
// An idle key is one that the queue knows nothing of: it has no map entry, no
// goroutine and no timer. One timer serves all the waiting keys.
//
// # Lanes
//
// Events go to the lane [Fresh]; resyncs, retries and baselines go to
// [Background]. Fresh keys are served first, but after Config.FreshShare of
// them in a row a background key has its turn, so that neither lane starves.
// Within a lane, what entered first is served first. A key that is queued in
// the background and then dirtied as fresh enters the fresh lane at its end.
//
// # Keys
//
// Keys are compared by value; two pointers to equal things would be two keys,
// and one thing would be in flight twice. [New] therefore refuses key types
// that hold pointers, channels or interfaces, and floating-point numbers, which
// need not equal themselves.
//
// # Time
//
// Delays are measured by Config.Clock. When that is stepped backwards, waiting
// keys wait no longer than their delay again, counted from when the queue next
// looks at the clock; none is lost. Under testing/synctest use
// clock.WallClock.
//
// # Concurrency
//
// All methods may be called from many goroutines at once; only Take blocks. The
// queue starts no goroutine of its own. The timer's callback runs on one of the
// clock's, for a moment, and after [Queue.Close] does nothing.
package keyqueue
