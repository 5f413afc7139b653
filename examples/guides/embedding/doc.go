// Package embedding is the code of docs/embedding.md: from an empty agent to both
// workers, a step a file. Every step is an Example or a test, so what the guide shows
// is compiled and run; the guide is generated from it, see examples/docs.
package embedding
