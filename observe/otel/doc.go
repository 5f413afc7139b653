// Package otel makes OpenTelemetry spans of what sutler's workers do: one for each
// pass over an application or container and for each attempt at a phase of a
// container type's preparation, and a short one for each event.
//
// # Use
//
// [New] makes a [Tracer] on a provider that its owner has configured. What
// [Tracer.Operators] and [Tracer.Setup] return goes into the Metrics of the
// workers' configs; [Tracer.Setup] serves the container provisioners, too. To have
// metrics or a page as well, see observe.Operators and observe.Setup.
//
// # Spans
//
// The constants name spans and attributes; docs/observe/traces.md describes them.
// A pass's span has a link to that of the event which caused it, if that is among
// the latest 1,024: an event causes many passes and is over when they begin, so it
// is not their parent. The context of a pass's or phase's calls carries its span, so
// spans of an instrumented facade, manager or back end are inside. Calls for many
// at once go out in batches, with a context of their own.
//
// Times are those of Config.Clock. What is an error for whoever is paged (failed,
// permanent, panicked, stuck, given up) has status Error and the error recorded;
// the status of all else is left unset, as the conventions have it.
//
// # Life cycle
//
// A Tracer is a worker. Kill it after the workers have ended, Wait for it, then shut
// the provider down: in this order no span is lost.
//
// # When the provider misbehaves
//
// Workers are never held up. All calls of the provider, its samplers and processors
// come from two goroutines of the Tracer. One begins spans: a pass, whose calls need
// the span's context, waits for it 100 ms at the longest. Once that was in vain,
// there are no spans, and no waiting, until the provider answers. The other ends
// spans, from a queue of 4,096; more are lost. So an exporter that hangs in a
// synchronous processor costs spans and nothing else. A panic costs its span.
// [Tracer.Lost] counts them, and the log tells of the first.
//
// # Secrets
//
// Attributes have names, numbers, and the messages of errors, which hold no
// secrets.
package otel
