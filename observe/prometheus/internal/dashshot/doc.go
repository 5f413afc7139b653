// Package dashshot asks a real Prometheus for everything that the dashboard shows,
// and draws docs/observe/dashboard.png from its answers:
//
//	go test ./prometheus/internal/dashshot -picture
//
// What is shown is an hour of both workers on fakes, in virtual time, with
// things that go wrong. Every half minute the registry is gathered; promtool
// makes blocks of a database from that, which the server opens. The picture
// needs chromium.
package dashshot
