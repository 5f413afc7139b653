// Package interfaces reads the configuration of ifupdown and rewrites it so that
// devices become ports of bridges.
package interfaces
