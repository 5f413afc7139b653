// Package hostnet sees what a host's network looks like ([Observer]) and puts its devices
// under bridges ([Bridger]).
package hostnet
