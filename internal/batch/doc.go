// Package batch turns many calls for one thing each into few calls for many
// things, without a timer and without delaying anybody.
//
// # How it gathers
//
// A [Batcher.Do] that finds no call under way calls at once, in its own
// goroutine, for its one item. Those that come while a call is under way gather,
// and leave together as the next batch when it ends: the busier the other side
// is, the larger the batches. There is one call at a time.
//
// # Who calls
//
// No goroutine is ever started. The caller that calls for a batch is its
// leader; when the call has ended, it appoints one of those that gathered
// meanwhile as the next leader and returns.
//
// A call runs under Config.Context and Config.Timeout, not under the context of
// a caller, whose end must not cost the others their answer. So a caller that
// is not the leader returns as soon as its context ends; a leader sees its call
// through first, which takes Config.Timeout at the most for a Call that honours
// its context (longer only when the batch is split, see Config.Splits). An item
// whose caller has left is not sent any more. Whether one that had been sent
// took effect, its caller does not know.
//
// # Errors
//
// An item's own error is returned to its caller alone; an error of the whole
// call is returned to every caller of the batch. Both are returned as they are,
// with two exceptions. A call that was cut short by Config.Timeout gives an
// errors.Timeout and not the context.Canceled that it saw. And an error of the
// whole call is never an errors.NotFound to a caller: that is an answer about an
// item, and only an item's own result gives it. An answer that is
// too short gives an errors.NotValid for each item that has none; what is too
// long is ignored. When Call panics, the items of the batch fail, somebody else
// is appointed, and the panic goes on in the leader's goroutine.
//
// # Concurrency and ownership
//
// All methods may be called from many goroutines at once. A Batcher needs no
// closing. It keeps no item, and no answer, beyond the Do that they belong to (of
// a caller that left early: beyond the call that is under way), so it may carry
// secrets; its errors never quote either.
//
// # Testing
//
// Under testing/synctest use clock.WallClock, and make the Batcher in the
// bubble that uses it.
package batch
