package lxdfake

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// reply is what a handler makes of a request. With an operation, begin and finish
// are called later, with the mutex held: begin as soon as the operation runs, and
// finish at its end.
type reply struct {
	code int    // of a refusal
	text string // of a refusal
	data any
	etag any // what the ETag is made of

	created bool
	async   bool
	begin   func() error
	finish  func() (any, error)
}

// refuse is the reply of a request that LXD refuses.
func refuse(code int, format string, args ...any) reply {
	return reply{code: code, text: fmt.Sprintf(format, args...)}
}

// handler is called with the mutex held.
type handler func(r *http.Request, body []byte) reply

// operation is what goes on in the background.
type operation struct {
	id      string
	created time.Time
	done    chan struct{}
	err     string
	data    any
	// on is the path of the instance that it is about, if any.
	on string
}

func (o *operation) json() map[string]any {
	status, code, text := "Running", 103, ""
	var data any
	select {
	case <-o.done:
		status, code, text, data = "Success", 200, o.err, o.data
		if o.err != "" {
			status, code = "Failure", 400
		}
	default:
	}
	var resources map[string][]string
	if o.on != "" {
		resources = map[string][]string{"instances": {o.on}}
	}
	return map[string]any{
		"id": o.id, "class": "task", "description": "Working", "created_at": o.created, "updated_at": o.created,
		"status": status, "status_code": code, "resources": resources, "metadata": data,
		"may_cancel": false, "err": text, "location": "none",
	}
}

// serve answers a request, faults included.
func (f *Fake) serve(d *daemon, w http.ResponseWriter, r *http.Request) {
	request := Request{Method: r.Method, Path: r.URL.Path}
	change := r.Method != http.MethodGet
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}

	f.mu.Lock()
	if f.run != d {
		f.mu.Unlock()
		panic(http.ErrAbortHandler)
	}
	d.handlers.Add(1) // before Stop waits for them
	defer d.handlers.Done()
	f.requests = append(f.requests, request)
	hang := f.take(request, faultHang)
	f.mu.Unlock()
	if hang != nil && !hang.await(r.Context(), d.ctx) {
		panic(http.ErrAbortHandler)
	}

	// An operation's end is waited for without the mutex.
	if r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/1.0/operations/") {
		f.serveOperation(d, w, r, request)
		return
	}

	f.mu.Lock()
	if f.run != d {
		f.mu.Unlock()
		panic(http.ErrAbortHandler) // killed meanwhile
	}
	if refusal := f.take(request, faultDrop, faultFail); refusal != nil {
		f.mu.Unlock()
		if refusal.kind == faultDrop {
			panic(http.ErrAbortHandler)
		}
		answer(w, refuse(refusal.code, "%s", refusal.text), nil)
		return
	}
	lose := f.take(request, faultLoseReply) != nil
	result := f.dispatch(r, body)
	var op *operation
	if result.async && result.code == 0 {
		op = f.startOperation(d, request, result, instanceOf(r.URL.Path, body))
	}
	dies := false
	if change && f.crash > 0 {
		f.crash--
		dies = f.crash == 0
	}
	f.mu.Unlock()

	if lose || dies {
		if op != nil {
			select {
			case <-op.done:
			case <-d.ctx.Done():
			}
		}
		if dies {
			f.kill()
		}
		panic(http.ErrAbortHandler)
	}
	answer(w, result, op)
}

// dispatch finds the handler. The mutex is held.
func (f *Fake) dispatch(r *http.Request, body []byte) reply {
	w := &capture{body: body}
	f.mux.ServeHTTP(w, r)
	if !w.handled {
		return refuse(http.StatusNotFound, "not found")
	}
	return w.reply
}

// capture carries a handler's reply through the mux, which has its own idea of
// what a handler is.
type capture struct {
	body    []byte
	reply   reply
	handled bool
}

func (*capture) Header() http.Header         { return http.Header{} }
func (*capture) Write(b []byte) (int, error) { return len(b), nil }
func (*capture) WriteHeader(int)             {}

func (f *Fake) handle(mux *http.ServeMux, pattern string, h handler) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		c := w.(*capture)
		c.reply, c.handled = h(r, c.body), true
	})
}

// startOperation has a goroutine carry a reply out. The mutex is held.
func (f *Fake) startOperation(d *daemon, request Request, result reply, on string) *operation {
	d.nextID++
	sum := sha256.Sum256([]byte(fmt.Sprintf("%p %d", d, d.nextID)))
	op := &operation{
		id:      fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16]),
		created: time.Now(),
		done:    make(chan struct{}),
		on:      on,
	}
	d.operations[op.id] = op
	fails := f.take(request, faultFailOperation)
	hang := f.take(request, faultHangOperation)
	d.working.Go(func() { f.carryOut(d, op, result, fails, hang) })
	return op
}

func (f *Fake) carryOut(d *daemon, op *operation, result reply, fails, hang *fault) {
	end := func(data any, err error) {
		op.data = data
		if err != nil {
			op.err = err.Error()
		}
		close(op.done)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if d.ctx.Err() != nil {
		return // killed; nobody will ask for it
	}
	if fails != nil {
		end(nil, fmt.Errorf("%s", fails.text))
		return
	}
	if result.begin != nil {
		if err := result.begin(); err != nil {
			end(nil, err)
			return
		}
	}
	if hang != nil {
		f.mu.Unlock()
		released := hang.await(d.ctx, context.Background())
		f.mu.Lock()
		if !released || d.ctx.Err() != nil {
			return
		}
	}
	data, err := result.finish()
	end(data, err)
}

// instanceOf is the path of the instance that a request is about, or empty.
func instanceOf(path string, body []byte) string {
	name, ok := strings.CutPrefix(path, "/1.0/instances")
	if !ok {
		return ""
	}
	name, _, _ = strings.Cut(strings.TrimPrefix(name, "/"), "/")
	var made struct {
		Name string `json:"name"`
	}
	if name == "" && json.Unmarshal(body, &made) == nil {
		name = made.Name
	}
	return "/1.0/instances/" + name
}

// listOperations returns those that there are, by their state. The mutex is held.
func (f *Fake) listOperations() map[string][]map[string]any {
	lists := map[string][]map[string]any{}
	for _, op := range f.run.operations {
		described := op.json()
		state := strings.ToLower(described["status"].(string))
		lists[state] = append(lists[state], described)
	}
	return lists
}

// serveOperation answers what concerns an operation.
func (f *Fake) serveOperation(d *daemon, w http.ResponseWriter, r *http.Request, request Request) {
	f.mu.Lock()
	refusal := f.take(request, faultDrop, faultLoseReply, faultFail)
	id, wait := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/1.0/operations/"), "/wait")
	op := d.operations[id]
	f.mu.Unlock()
	switch {
	case refusal != nil && refusal.kind == faultFail:
		answer(w, refuse(refusal.code, "%s", refusal.text), nil)
		return
	case refusal != nil:
		panic(http.ErrAbortHandler)
	case op == nil:
		answer(w, refuse(http.StatusNotFound, "Operation not found"), nil)
		return
	}
	if wait {
		seconds, err := strconv.Atoi(r.URL.Query().Get("timeout"))
		if err != nil || seconds < 0 {
			seconds = 1 << 20
		}
		timer := time.NewTimer(time.Duration(seconds) * time.Second)
		defer timer.Stop()
		select {
		case <-op.done:
		case <-timer.C:
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		case <-d.ctx.Done():
			panic(http.ErrAbortHandler)
		}
	}
	answer(w, reply{data: op.json()}, nil)
}

// answer writes a reply in LXD's form.
func answer(w http.ResponseWriter, result reply, op *operation) {
	header := w.Header()
	header.Set("Content-Type", "application/json")
	body := map[string]any{
		"type": "sync", "status": "Success", "status_code": 200,
		"operation": "", "error_code": 0, "error": "", "metadata": result.data,
	}
	code := http.StatusOK
	switch {
	case result.code != 0:
		code = result.code
		body["type"], body["status"], body["status_code"] = "error", "", 0
		body["error_code"], body["error"], body["metadata"] = result.code, result.text, nil
	case op != nil:
		code = http.StatusAccepted
		body["type"], body["status"], body["status_code"] = "async", "Operation created", 100
		// As it was when it was made, done or not.
		body["operation"], body["metadata"] = "/1.0/operations/"+op.id, (&operation{id: op.id, on: op.on, created: op.created, done: make(chan struct{})}).json()
	case result.created:
		code = http.StatusCreated
	case result.etag != nil:
		header.Set("ETag", `"`+etag(result.etag)+`"`)
	}
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // whoever asked may have left
}

// etag is made of what can be set.
func etag(of any) string {
	data, err := json.Marshal(of)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))
}

// changed refuses a request whose ETag is not that of what is there.
func changed(r *http.Request, now any) (reply, bool) {
	want := strings.Trim(r.Header.Get("If-Match"), `"`)
	if have := etag(now); want != "" && want != have {
		return refuse(http.StatusPreconditionFailed, "ETag doesn't match: %s vs %s", have, want), true
	}
	return reply{}, false
}

// parse reads a request's body.
func parse(body []byte, into any) (reply, bool) {
	if err := json.Unmarshal(body, into); err != nil {
		return refuse(http.StatusBadRequest, "%v", err), false
	}
	return reply{}, true
}
