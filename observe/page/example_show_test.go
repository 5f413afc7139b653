package page_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
)

// show prints what a handler answers.
func show(h http.Handler, target string) {
	request := httptest.NewRequestWithContext(context.Background(), http.MethodGet, target, nil)
	request.Host = "localhost"
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, request)
	fmt.Print(answer.Code, " ", answer.Body)
}
