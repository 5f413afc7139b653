// Package model reads a model from a directory that a person edits.
//
//	model.yaml                            the model's name, UUID and version
//	applications/NAME/application.yaml    what is to be made of an application
//	applications/NAME/charm/metadata.yaml its charm, as charms have it
//	applications/NAME/charm/manifest.yaml
//	machine.yaml                          what the agent's own machine can have
//	containers/ID.yaml                    what is to be made of a container
//
// [Load] reads it all, once; [Diff] tells what changed between two readings.
// Nothing here writes, watches or remembers.
//
// # Malformed files
//
// A file that breaks a rule costs its own application or container and nothing
// else, a machine.yaml the machine's containers and no application. The
// [Problem] names the file, the line and the rule. What cannot be read is never
// taken for "removed": an application is gone only when its directory is, and a
// container when its file is.
//
// The files of a model are strict: an unknown key is most likely a misspelt one.
// Those of a charm are not, since charms say much that is of no concern here.
//
// # Limits
//
// Whoever writes the directory is trusted with their own model but not with the
// agent's memory: a file that is too large is refused unread, and so is anything
// that is not a regular file. YAML aliases are not followed, and a text has one
// line of at most [MaxText] bytes; only user data has several, of at most
// [MaxUserData]. No message repeats what a file says.
package model
