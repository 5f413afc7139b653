package kubetest

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AuditEvent is a request that the API server has answered, or a watch that it has
// begun to answer.
type AuditEvent struct {
	// Time is when the request came.
	Time time.Time
	// User is who asked, system:serviceaccount:NAMESPACE:NAME for a service
	// account, with which program.
	User, UserAgent string
	// What was asked for. The resource is empty for anything but an object.
	Verb, Group, Resource, Subresource, Namespace, Name, URI string
	// Code is the HTTP status of the answer.
	Code int
}

// Write says whether the request was to change something.
func (e AuditEvent) Write() bool { return writes(e.Verb) && !strings.Contains(e.URI, "dryRun=All") }

// String returns verb, resource and name, as in "patch statefulsets/status ns/name".
func (e AuditEvent) String() string {
	return describe(e.Verb, e.Resource, e.Subresource, e.Namespace, e.Name, e.URI)
}

// AuditLog returns all requests that the API server has had since its first start,
// the test's own and those of the controllers among them, in the order in which they
// were answered. What had been answered before the call is in it.
func (c *ControlPlane) AuditLog(t testing.TB) []AuditEvent {
	t.Helper()
	// The log is written after the answer. What asks for this is written last.
	marker := "kubetest-" + strings.ToLower(rand.Text())
	if _, err := c.Client.CoreV1().ConfigMaps("default").Get(t.Context(), marker, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Fatalf("marking the audit log: %v", err)
	}
	var data []byte
	Eventually(t, "the audit log", func() error {
		var err error
		if data, err = os.ReadFile(c.processes.AuditLog()); err != nil {
			return err
		}
		at := bytes.Index(data, []byte(marker))
		if at < 0 {
			return fmt.Errorf("it is not up to date")
		}
		data = data[:bytes.LastIndexByte(data[:at], '\n')+1]
		return nil
	})
	events, err := parseAudit(data)
	if err != nil {
		t.Fatalf("reading the audit log: %v", err)
	}
	return events
}

// parseAudit returns the events of an audit log, each request once.
func parseAudit(data []byte) ([]AuditEvent, error) {
	var events []AuditEvent
	for line := range bytes.Lines(data) {
		var event struct {
			Stage, Verb, UserAgent, RequestURI string
			User                               struct{ Username string }
			ObjectRef                          struct{ APIGroup, Resource, Subresource, Namespace, Name string }
			ResponseStatus                     struct{ Code int }
			RequestReceivedTimestamp           time.Time
		}
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, fmt.Errorf("line %.200q: %w", line, err)
		}
		// A watch is told of when it begins, and once more when it ends; all
		// else when it ends. Anything else has not been carried out.
		if (event.Verb == "watch") != (event.Stage == "ResponseStarted") {
			continue
		}
		object := event.ObjectRef
		events = append(events, AuditEvent{
			Time: event.RequestReceivedTimestamp,
			User: event.User.Username, UserAgent: event.UserAgent,
			Verb: event.Verb, Group: object.APIGroup, Resource: object.Resource, Subresource: object.Subresource,
			Namespace: object.Namespace, Name: object.Name, URI: event.RequestURI,
			Code: event.ResponseStatus.Code,
		})
	}
	return events, nil
}
