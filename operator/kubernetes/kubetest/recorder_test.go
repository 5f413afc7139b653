package kubetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
)

// answering is a RoundTripper that answers everything.
type answering func(*http.Request)

func (f answering) RoundTrip(q *http.Request) (*http.Response, error) {
	if f != nil {
		f(q)
	}
	if q.Body != nil {
		if _, err := io.Copy(io.Discard, q.Body); err != nil {
			return nil, err
		}
		q.Body.Close()
	}
	return &http.Response{StatusCode: http.StatusCreated, Body: io.NopCloser(strings.NewReader("{}")), Request: q}, nil
}

// send sends a request by way of the recorder and returns the status of the answer.
func send(t *testing.T, r *Recorder, method, url, body string, next answering) (int, error) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, "https://cluster"+url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := transport{r, next}.RoundTrip(q)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

func TestRecorderKnowsWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		method, url, want string
		write             bool
	}{
		{"GET", "/api/v1/namespaces/ns/pods", "list pods ns/", false},
		{"GET", "/api/v1/namespaces/ns/pods?watch=true", "watch pods ns/", false},
		{"GET", "/api/v1/pods?watch=1", "watch pods", false},
		{"GET", "/api/v1/namespaces/ns/pods/web-0", "get pods ns/web-0", false},
		{"GET", "/api/v1/namespaces/ns/pods/web-0/log", "get pods/log ns/web-0", false},
		{"GET", "/version", "get /version", false},
		{"GET", "/apis/apps/v1", "get /apis/apps/v1", false},
		{"POST", "/api/v1/namespaces", "create namespaces", true},
		{"POST", "/api/v1/namespaces/ns/secrets", "create secrets ns/", true},
		{"POST", "/api/v1/namespaces/ns/secrets?dryRun=All", "create secrets ns/", false},
		{"POST", "/api/v1/namespaces/ns/serviceaccounts/a/token", "create serviceaccounts/token ns/a", true},
		{"PUT", "/api/v1/namespaces/ns/finalize", "update namespaces/finalize ns", true},
		{"PUT", "/apis/apps/v1/namespaces/ns/statefulsets/web/status", "update statefulsets/status ns/web", true},
		{"PATCH", "/apis/apps/v1/namespaces/ns/statefulsets/web", "patch statefulsets ns/web", true},
		{"DELETE", "/api/v1/namespaces/ns", "delete namespaces ns", true},
		{"DELETE", "/apis/storage.k8s.io/v1/storageclasses/fast", "delete storageclasses fast", true},
		{"DELETE", "/api/v1/namespaces/ns/pods", "deletecollection pods ns/", true},
	} {
		r := NewRecorder()
		if _, err := send(t, r, test.method, test.url, "", nil); err != nil {
			t.Errorf("%s %s: %v", test.method, test.url, err)
			continue
		}
		got := r.Requests()[0]
		if got.String() != test.want || got.Write() != test.write || got.Code != http.StatusCreated {
			t.Errorf("%s %s is %q, write %v, code %d; want %q, write %v", test.method, test.url, got, got.Write(), got.Code, test.want, test.write)
		}
	}
}

func TestRecorderSendsWhatItHasRead(t *testing.T) {
	t.Parallel()
	r := NewRecorder()
	var sent string
	_, err := send(t, r, http.MethodPost, "/api/v1/namespaces/ns/secrets", "a body", func(q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			t.Error(err)
		}
		sent = string(body)
	})
	if err != nil || sent != "a body" || r.Writes()[0].Body != sent {
		t.Errorf("sent %q, recorded %q (%v)", sent, r.Writes()[0].Body, err)
	}
}

func TestRecorderTellsServerSideApply(t *testing.T) {
	t.Parallel()
	r := NewRecorder()
	for _, kind := range []string{"application/apply-patch+yaml", "application/apply-patch+cbor", "application/merge-patch+json"} {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, "https://cluster/api/v1/namespaces/ns/secrets/a", strings.NewReader(""))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Content-Type", kind)
		response, err := transport{r, answering(nil)}.RoundTrip(q)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
	}
	want := []string{"apply secrets ns/a", "apply secrets ns/a", "patch secrets ns/a"}
	if got := texts(r.Requests()); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func texts(requests []Request) []string {
	var all []string
	for _, request := range requests {
		all = append(all, request.String())
	}
	return all
}

func TestFaultIsForItsRequestsOnly(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		fault Fault
		// Which of five writes fail.
		fails []int
	}{
		{"all", Fault{}, []int{1, 2, 3, 4, 5}},
		{"from the third", Fault{First: 3}, []int{3, 4, 5}},
		{"up to the second", Fault{Last: 2}, []int{1, 2}},
		{"the fourth", Fault{First: 4, Last: 4}, []int{4}},
	} {
		r := NewRecorder()
		test.fault.Refuse = true
		r.Inject(On("create", "secrets"), test.fault)
		var failed []int
		for i := range 5 {
			// What does not match does not count.
			if _, err := send(t, r, http.MethodGet, "/api/v1/namespaces/ns/secrets", "", nil); err != nil {
				t.Errorf("%s: a read: %v", test.name, err)
			}
			if _, err := send(t, r, http.MethodPost, "/api/v1/namespaces/ns/pods", "", nil); err != nil {
				t.Errorf("%s: another write: %v", test.name, err)
			}
			_, err := send(t, r, http.MethodPost, "/api/v1/namespaces/ns/secrets", "", nil)
			if err != nil {
				failed = append(failed, i+1)
			}
			if err != nil && !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("%s: %v", test.name, err)
			}
		}
		if !slices.Equal(failed, test.fails) {
			t.Errorf("%s: %v failed, want %v", test.name, failed, test.fails)
		}
	}
}

func TestFaultInjectedFirstIsDone(t *testing.T) {
	t.Parallel()
	r := NewRecorder()
	r.Inject(Writes, Fault{Last: 1, Status: 500})
	r.Inject(Writes, Fault{Status: 403})
	r.Inject(On("", "pods"), Fault{Status: 404})
	var codes []int
	for range 3 {
		code, err := send(t, r, http.MethodPost, "/api/v1/namespaces/ns/pods", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		codes = append(codes, code)
	}
	if want := []int{500, 403, 403}; !slices.Equal(codes, want) {
		t.Errorf("answers are %v, want %v", codes, want)
	}
	r.Heal()
	if code, err := send(t, r, http.MethodPost, "/api/v1/namespaces/ns/pods", "", nil); err != nil || code != http.StatusCreated {
		t.Errorf("after Heal: %d, %v", code, err)
	}
	if n := len(r.Requests()); n != 4 {
		t.Errorf("%d requests, want 4", n)
	}
	r.Reset()
	if n := r.Count(Writes); n != 0 {
		t.Errorf("%d requests after Reset", n)
	}
}

func TestLostAnswerIsToARequestThatWasSent(t *testing.T) {
	t.Parallel()
	r := NewRecorder()
	var order []string
	r.Inject(Writes, Fault{
		Before: func(q Request) { order = append(order, fmt.Sprint("before ", q.Code)) },
		After:  func(q Request) { order = append(order, fmt.Sprint("after ", q.Code)) },
		Lose:   true,
	})
	_, err := send(t, r, http.MethodPost, "/api/v1/namespaces/ns/pods", "", func(*http.Request) { order = append(order, "sent") })
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
	if want := []string{"before 0", "sent", "after 201"}; !slices.Equal(order, want) {
		t.Errorf("order is %q, want %q", order, want)
	}
}

func TestDelayEndsWithTheRequestsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := NewRecorder()
		r.Inject(Writes, Fault{Delay: time.Minute})
		began := time.Now()
		if _, err := send(t, r, http.MethodPost, "/api/v1/namespaces/ns/pods", "", nil); err != nil || time.Since(began) != time.Minute {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		q, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://cluster/api/v1/namespaces/ns/pods", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := transport{r, answering(func(*http.Request) { t.Error("it was sent") })}.RoundTrip(q)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if err == nil {
			response.Body.Close()
		}
	})
}

func TestNothingIsSentAfterACrash(t *testing.T) {
	t.Parallel()
	// The invariant holds with many at once: n writes are carried out, no more.
	const n, writers = 20, 8
	r := NewRecorder()
	r.CrashAfterWrite(n)
	var mu sync.Mutex
	sent, answered := 0, 0
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for range n {
				_, err := send(t, r, http.MethodPost, "/api/v1/namespaces/ns/pods", "", func(*http.Request) {
					mu.Lock()
					defer mu.Unlock()
					sent++
				})
				if err == nil {
					mu.Lock()
					answered++
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	if sent != n || answered != n-1 || !r.Crashed() || len(r.Writes()) != n*writers {
		t.Errorf("%d sent and %d answered of %d, crashed %v; want %d and %d", sent, answered, len(r.Writes()), r.Crashed(), n, n-1)
	}
}

func TestRecorderLeavesTheConfigurationAlone(t *testing.T) {
	t.Parallel()
	config := &rest.Config{Host: "https://cluster"}
	if wrapped := NewRecorder().Wrap(config); wrapped == config || config.WrapTransport != nil || wrapped.WrapTransport == nil {
		t.Error("the configuration that was given was changed")
	}
}

func ExampleRecorder() {
	recorder := NewRecorder()
	config := recorder.Wrap(&rest.Config{Host: "https://cluster"})
	// Clients of this configuration have their second write carried out, and
	// never learn of it.
	recorder.Inject(Writes, Fault{First: 2, Last: 2, Lose: true})
	fmt.Println(config.Host, len(recorder.Writes()))
	// Output: https://cluster 0
}

func TestAuditHasEachRequestOnce(t *testing.T) {
	t.Parallel()
	const log = `{"stage":"ResponseComplete","requestURI":"/api/v1/namespaces/ns/secrets/a","verb":"get","user":{"username":"agent"},"objectRef":{"resource":"secrets","namespace":"ns","name":"a"},"responseStatus":{"code":200}}
{"stage":"ResponseStarted","requestURI":"/api/v1/namespaces/ns/pods?watch=true","verb":"watch","user":{"username":"agent"},"objectRef":{"resource":"pods","namespace":"ns"},"responseStatus":{"code":200}}
{"stage":"ResponseStarted","requestURI":"/api/v1/namespaces/ns/pods/web-0/log?follow=true","verb":"get","objectRef":{"resource":"pods","subresource":"log","namespace":"ns","name":"web-0"},"responseStatus":{"code":200}}
{"stage":"ResponseComplete","requestURI":"/api/v1/namespaces/ns/pods?watch=true","verb":"watch","user":{"username":"agent"},"objectRef":{"resource":"pods","namespace":"ns"},"responseStatus":{"code":200}}
{"stage":"ResponseComplete","requestURI":"/apis/apps/v1/namespaces/ns/statefulsets/web/status?dryRun=All","verb":"patch","objectRef":{"apiGroup":"apps","resource":"statefulsets","subresource":"status","namespace":"ns","name":"web"},"responseStatus":{"code":409}}
{"stage":"ResponseComplete","requestURI":"/api/v1/namespaces/ns/pods?limit=5","verb":"deletecollection","objectRef":{"resource":"pods","namespace":"ns"},"responseStatus":{"code":200}}
`
	events, err := parseAudit([]byte(log))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, event := range events {
		got = append(got, fmt.Sprint(event, " ", event.Code, " ", event.Write()))
	}
	want := []string{
		"get secrets ns/a 200 false", "watch pods ns/ 200 false",
		"patch statefulsets/status ns/web 409 false", "deletecollection pods ns/ 200 true",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if _, err := parseAudit([]byte("{\n")); err == nil {
		t.Error("no error for half a line")
	}
}
