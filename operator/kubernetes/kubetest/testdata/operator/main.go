// Command operator is what the tests of the real node run in a pod.
//
//	operator install FILE       copies itself there
//	operator serve ADDRESS FILE answers HTTP with what is in the file
//	operator get URL            says what is answered, and waits
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "install":
		data, err := os.ReadFile("/proc/self/exe")
		if err != nil {
			return err
		}
		return os.WriteFile(args[1], data, 0o755)
	case len(args) == 3 && args[0] == "serve":
		fmt.Println("serving as", os.Getuid())
		return http.ListenAndServe(args[1], http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			data, err := os.ReadFile(args[2])
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			w.Write(data)
		}))
	case len(args) == 2 && args[0] == "get":
		response, err := http.Get(args[1])
		if err != nil {
			return err
		}
		body, err := io.ReadAll(response.Body)
		if err != nil {
			return err
		}
		fmt.Printf("got %s\n", body)
		time.Sleep(time.Hour)
		return nil
	}
	return fmt.Errorf("arguments %q", args)
}
