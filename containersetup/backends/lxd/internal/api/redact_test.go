package api

import (
	"strings"
	"testing"
)

func TestRedact(t *testing.T) {
	config := map[string]string{
		"core.proxy_http": "http://user:pa55word@proxy:3128",
		"user.user-data":  "#cloud-config\npassword: hunter2hunter2\n\"quoted\": yes\n",
		"limits.cpu":      "2",
		"user.short":      "abc",
		"user.empty":      "",
	}
	for _, test := range []struct{ about, message, want string }{
		{"nothing", "", ""},
		{"nothing to hide", "Network not found", "Network not found"},
		{"quoted", "cannot set 'core.proxy_http' to 'http://user:pa55word@proxy:3128': no", "cannot set 'core.proxy_http' to '<core.proxy_http>': no"},
		{"within more", "x=http://user:pa55word@proxy:3128/y", "x=<core.proxy_http>/y"},
		{"lines", "bad: #cloud-config\npassword: hunter2hunter2\n\"quoted\": yes\n", "bad: <user.user-data>\n"},
		{"lines in a Go string", `bad: "#cloud-config\npassword: hunter2hunter2\n\"quoted\": yes"`, `bad: "<user.user-data>"`},
		{"a beginning, by a YAML parser", "cannot unmarshal !!str `hunter2...` into int", "cannot unmarshal !!str `<user.user-data>` into int"},
		{"back quotes of something else", "no `eth0` here, and `", "no `eth0` here, and `"},
		{"a short one in quotes", `bad "abc", bad 'abc'`, "bad <user.short>, bad <user.short>"},
		{"a short one is part of a word", "abcde: 2 of 3", "abcde: 2 of 3"},
		{"a digit in quotes", "no CPU '2'", "no CPU <limits.cpu>"},
	} {
		if got := redact(test.message, []map[string]string{nil, config}); got != test.want {
			t.Errorf("%s: %q, want %q", test.about, got, test.want)
		}
	}
}

func TestRedactTakesTheLongestValue(t *testing.T) {
	got := redact("secret-and-more", []map[string]string{{"user.a": "secret"}, {"user.b": "secret-and-more"}})
	if got != "<user.b>" {
		t.Errorf("%q", got)
	}
}

func FuzzRedact(f *testing.F) {
	f.Add("cannot set 'a' to 'secret-value'", "secret-value", "other")
	f.Add("`sec...`", "secret-value", "`")
	f.Fuzz(func(t *testing.T, message, value, other string) {
		config := map[string]string{"user.secret": value, "user.other": other}
		got := redact(message, []map[string]string{config})
		// What is put in its place may spell another short one.
		if value = strings.TrimSpace(value); len(value) >= always && strings.Contains(got, value) &&
			!strings.Contains("<user.secret>", value) && !strings.Contains("<user.other>", value) && strings.TrimSpace(other) == "" {
			t.Errorf("%q is in %q", value, got)
		}
	})
}

func FuzzOneLine(f *testing.F) {
	f.Add("a\nb")
	f.Add("\xff\x00")
	f.Fuzz(func(t *testing.T, message string) {
		got := oneLine(message)
		if got == "" || len(got) > maxMessage+len("...") || strings.ContainsAny(got, "\n\r\t\x00\x1b") {
			t.Errorf("%q", got)
		}
	})
}

func TestOperationID(t *testing.T) {
	const id = "0008c19a-1e0b-4f36-8282-6e9056a913bc"
	for path, want := range map[string]string{
		"/1.0/operations/" + id:                         id,
		"/1.0/operations/" + id + "?project=other":      id,
		"/1.0/operations/":                              "",
		"/1.0/operations/a/b":                           "",
		"/1.0/operations/..":                            "",
		"/1.0/operations/" + strings.Repeat("a", 65):    "",
		"/1.0/instances/" + id:                          "",
		"http://lxd/1.0/operations/" + id:               "",
		"/1.0/operations/%2e%2e/instances":              "",
		"/1.0/operations/" + id + "\r\nHost: elsewhere": "",
	} {
		got, err := operationID(path)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("operationID(%q) = %q, %v", path, got, err)
		}
	}
}
