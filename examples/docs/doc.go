// Command docs makes what is generated in the documentation: the code that its pages
// show, and the pictures in docs/pictures. From the folder examples:
//
//	go run ./docs
//
// Its tests hold the documentation to the code: what is generated is up to date; Go in
// the pages is compiled; YAML and JSON parse; every command is run by a test, or by CI,
// or has a reason why not; every link and path leads somewhere; every page can be reached;
// and docs/operating.md names every state, report key and log message that there is.
package main
