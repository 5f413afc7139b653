//go:build !race

package main

const raceFlag = "-race=false"
