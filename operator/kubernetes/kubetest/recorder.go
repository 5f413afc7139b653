package kubetest

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// A Request is one that a [Recorder] has seen.
type Request struct {
	// Verb is what the API server calls it: get, list, watch, create, update,
	// patch, delete or deletecollection.
	Verb string
	// What the request is for. Of what is no resource, such as the API
	// server's version, there is only the path.
	Group, Version, Namespace, Resource, Subresource, Name, Path string
	// Apply is a patch that is a server-side apply; DryRun changes nothing.
	Apply, DryRun bool
	// Body is what a write has sent.
	Body string
	// Code is the HTTP status that was answered, and 0 until then, or if none was.
	Code int
}

// Write says whether the request is to change something.
func (q Request) Write() bool { return writes(q.Verb) && !q.DryRun }

func writes(verb string) bool {
	switch verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return true
	}
	return false
}

// String returns verb, resource and name, as in "patch statefulsets/status ns/name".
func (q Request) String() string {
	verb := q.Verb
	if q.Apply {
		verb = "apply"
	}
	return describe(verb, q.Resource, q.Subresource, q.Namespace, q.Name, q.Path)
}

func describe(verb, resource, subresource, namespace, name, path string) string {
	if resource == "" {
		return verb + " " + path
	}
	if namespace != "" && resource != "namespaces" {
		name = namespace + "/" + name
	}
	if subresource != "" {
		resource += "/" + subresource
	}
	return strings.TrimSpace(verb + " " + resource + " " + name)
}

// Writes matches the requests that are to change something.
func Writes(q Request) bool { return q.Write() }

// On returns what matches the requests with a verb for a resource, with its
// subresource as in "statefulsets/status". An empty one stands for any.
func On(verb, resource string) func(Request) bool {
	return func(q Request) bool {
		have := q.Resource
		if q.Subresource != "" {
			have += "/" + q.Subresource
		}
		return (verb == "" || verb == q.Verb) && (resource == "" || resource == have)
	}
}

// A Fault is what a [Recorder] does to requests. The fields that are set take effect
// in their order here.
type Fault struct {
	// First and Last are which of the matching requests it is for, counted from
	// 1 since the fault was injected. By default it is from the first on, and
	// without an end.
	First, Last int

	// Before is called before the request is sent, or not sent.
	Before func(Request)
	// Delay is how long it is held back. The request's context may end it.
	Delay time.Duration
	// Refuse has it fail as if nobody listened.
	Refuse bool
	// Status has it answered with this HTTP status, without being sent, and with
	// Message. RetryAfter, in seconds, is the header of that name unless it is 0;
	// client-go heeds it itself, up to ten times for one call.
	Status     int
	Message    string
	RetryAfter int
	// After is called when the request has been answered, before the client
	// has the answer.
	After func(Request)
	// Lose has the answer to a request that was carried out not arrive.
	Lose bool
}

// A Recorder notes the requests of the clients that it is put before ([Recorder.Wrap])
// and disturbs them. It is made by [NewRecorder] and safe for concurrent use.
type Recorder struct {
	mu       sync.Mutex
	requests []*Request
	faults   []*injected
	// crashIn is the number of writes until the crash; 0 is none in sight.
	crashIn int
	crashed bool
}

type injected struct {
	match func(Request) bool
	fault Fault
	seen  int
}

// NewRecorder returns a Recorder that has seen nothing and disturbs nothing.
func NewRecorder() *Recorder { return &Recorder{} }

// Wrap returns a copy of the configuration, for clients whose requests the recorder
// notes.
func (r *Recorder) Wrap(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return transport{r, next} })
	return config
}

// Requests returns what was asked since the last [Recorder.Reset], in that order,
// what was not sent too.
func (r *Recorder) Requests() []Request { return r.matching(func(Request) bool { return true }) }

// Writes returns those of the requests that are to change something.
func (r *Recorder) Writes() []Request { return r.matching(Writes) }

// Count returns how many of the requests match.
func (r *Recorder) Count(match func(Request) bool) int { return len(r.matching(match)) }

func (r *Recorder) matching(match func(Request) bool) []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	var matching []Request
	for _, request := range r.requests {
		if match(*request) {
			matching = append(matching, *request)
		}
	}
	return matching
}

// Reset forgets all requests. Faults stay.
func (r *Recorder) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = nil
}

// Inject does something to the requests that match, until [Recorder.Heal]. Of
// several faults for one request, the one that was injected first is done.
func (r *Recorder) Inject(match func(Request) bool, fault Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, &injected{match: match, fault: fault})
}

// CrashAfterWrite has the client seem to die with the n-th write from now: it is
// carried out, but not answered, and nothing is sent after it, until [Recorder.Heal].
// Other faults come on top.
func (r *Recorder) CrashAfterWrite(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.crashIn, r.crashed = n, false
}

// Crashed says whether that write has come.
func (r *Recorder) Crashed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.crashed
}

// Heal ends all faults.
func (r *Recorder) Heal() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults, r.crashIn, r.crashed = nil, 0, false
}

// note records the request and returns the fault that is for it.
func (r *Recorder) note(request *Request) Fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, request)
	if r.crashed {
		return Fault{Refuse: true}
	}
	var fault Fault
	found := false
	for _, candidate := range r.faults {
		if !candidate.match(*request) {
			continue
		}
		// Each counts what it matches, whichever is done.
		candidate.seen++
		first, last := candidate.fault.First, candidate.fault.Last
		if !found && candidate.seen >= first && (last == 0 || candidate.seen <= last) {
			fault, found = candidate.fault, true
		}
	}
	if r.crashIn > 0 && request.Write() {
		r.crashIn--
		if r.crashIn == 0 {
			r.crashed, fault.Lose = true, true
		}
	}
	return fault
}

// answered notes the answer and returns the request as it is now.
func (r *Recorder) answered(request *Request, code int) Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	request.Code = code
	return *request
}

// A transport is the recorder before one client's.
type transport struct {
	recorder *Recorder
	next     http.RoundTripper
}

// RoundTrip sends the request, unless a fault says otherwise.
func (t transport) RoundTrip(q *http.Request) (*http.Response, error) {
	request, q, err := parse(q)
	if err != nil {
		return nil, err
	}
	copied := *request
	fault := t.recorder.note(request)
	// The body has to be closed whether or not it is sent.
	unsent := func(response *http.Response, err error) (*http.Response, error) {
		if q.Body != nil {
			q.Body.Close()
		}
		return response, err
	}
	if fault.Before != nil {
		fault.Before(copied)
	}
	if fault.Delay > 0 {
		select {
		case <-time.After(fault.Delay):
		case <-q.Context().Done():
			return unsent(nil, q.Context().Err())
		}
	}
	switch {
	case fault.Refuse:
		return unsent(nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED})
	case fault.Status != 0:
		t.recorder.answered(request, fault.Status)
		return unsent(fault.response(q, copied))
	}
	response, err := t.next.RoundTrip(q)
	if err != nil {
		return nil, err
	}
	copied = t.recorder.answered(request, response.StatusCode)
	if fault.After != nil {
		fault.After(copied)
	}
	if fault.Lose {
		// The answer is read to its end: it was carried out.
		io.Copy(io.Discard, response.Body) //nolint:errcheck // Lost anyway.
		response.Body.Close()
		return nil, io.ErrUnexpectedEOF
	}
	return response, nil
}

// WrappedRoundTripper lets client-go find what it looks for further down.
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// response returns the answer that the fault stands for.
func (f Fault) response(q *http.Request, request Request) (*http.Response, error) {
	resource := schema.GroupResource{Group: request.Group, Resource: request.Resource}
	status := apierrors.NewGenericServerResponse(f.Status, request.Verb, resource, request.Name, f.Message, f.RetryAfter, true).Status()
	status.Kind, status.APIVersion = "Status", "v1"
	if f.Message != "" {
		status.Message = f.Message
	}
	body, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	header := http.Header{"Content-Type": {"application/json"}}
	if f.RetryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(f.RetryAfter))
	}
	return &http.Response{
		StatusCode: f.Status, Status: http.StatusText(f.Status),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: q,
	}, nil
}

// parse returns what is asked for, and the request to send for it: a write's body is
// read and laid in again.
func parse(q *http.Request) (*Request, *http.Request, error) {
	request := parsePath(q.URL.Path)
	query := q.URL.Query()
	request.DryRun = query.Has("dryRun")
	request.Apply = strings.HasPrefix(q.Header.Get("Content-Type"), strings.TrimSuffix(string(types.ApplyYAMLPatchType), "+yaml"))
	switch q.Method {
	case http.MethodGet, http.MethodHead:
		request.Verb = "get"
		if request.Resource != "" && request.Name == "" {
			request.Verb = "list"
		}
		if watch := query.Get("watch"); watch == "true" || watch == "1" {
			request.Verb = "watch"
		}
	case http.MethodPost:
		request.Verb = "create"
	case http.MethodPut:
		request.Verb = "update"
	case http.MethodPatch:
		request.Verb = "patch"
	case http.MethodDelete:
		request.Verb = "delete"
		if request.Name == "" {
			request.Verb = "deletecollection"
		}
	default:
		request.Verb = strings.ToLower(q.Method)
	}
	if !writes(request.Verb) || q.Body == nil {
		return request, q, nil
	}
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return nil, nil, err
	}
	q.Body.Close()
	request.Body = string(body)
	// A round tripper may not change the request that it is given.
	q = q.Clone(q.Context())
	q.Body = io.NopCloser(bytes.NewReader(body))
	return request, q, nil
}

// parsePath takes the path of a request to an API server apart.
func parsePath(path string) *Request {
	request := &Request{Path: path}
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		request.Version, parts = parts[1], parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		request.Group, request.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return request
	}
	if parts[0] == "namespaces" && len(parts) > 1 {
		request.Namespace = parts[1]
		// The namespace itself, or something in it.
		if len(parts) > 2 && !slices.Contains([]string{"status", "finalize"}, parts[2]) {
			parts = parts[2:]
		}
	}
	request.Resource = parts[0]
	if len(parts) > 1 {
		request.Name = parts[1]
	}
	if len(parts) > 2 {
		request.Subresource = strings.Join(parts[2:], "/")
	}
	return request
}
