//go:build race

package main

// raceFlag makes the program that the tests run report races, as they do.
const raceFlag = "-race"
