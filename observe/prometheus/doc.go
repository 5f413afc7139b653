// Package prometheus shows sutler's workers to Prometheus: counters and
// histograms of what they do, gauges of how they stand.
//
// # Use
//
// [New] registers one collector with the Registerer that it is given; nothing is
// global. Its [Metrics] hands out what the workers' configurations take:
//
//	m, err := prometheus.New(prometheus.Config{Registerer: registry})
//	...
//	provisionerConfig.Metrics = m.Operators()
//	setupConfig.Metrics = m.Setup()
//	setupConfig.Lock = m.Lock(machineLock)
//
// Serving /metrics is the caller's, with promhttp; see the example of the
// package. A Metrics outlives its workers: an engine that restarts them gives
// each the same one. It is not stopped; Registerer.Unregister takes it out.
//
// # Several workers
//
// Workers that share a Metrics are added up: counts are sums, and of points in
// time the earliest is told. An agent with several models does better with one
// Metrics for each, told apart by [Config].ConstLabels.
//
// # Series
//
// Every series is there at zero from the start; those of a type of container as
// soon as the type is known. Points in time are Unix timestamps, 0 for never or
// none: an age is time() minus that, of what is above 0. Labels come from closed
// sets, and what comes from outside, as types of containers and holders of the
// lock, is bounded: what is beyond is counted as "other". No name of an
// application or a container is among them unless [Config].ApplicationLabels
// asks for it, and errors never are.
//
// docs/observe/metrics.md lists all of them. The folder rules has recording and
// alerting rules, dashboard.json a dashboard for Grafana; both speak of the
// namespace "sutler".
//
// # Concurrency
//
// Everything may be used by many goroutines at once. To count costs a worker an
// atomic addition or two. A collection asks each attached worker for its Status,
// which holds that worker's lock shortly (some 10 ms for 100,000 applications),
// and waits for nothing else. A worker whose Status panics is left out.
package prometheus
