package figures

import (
	"fmt"
	"math"
	"strconv"

	"github.com/sutler-dev/sutler/bench/chart"
)

// Format writes a value with its unit: two or three digits that count.
func Format(v float64, unit string) string {
	switch unit {
	case "s":
		return formatSeconds(v)
	case "B":
		return formatBytes(v)
	}
	return number(v)
}

func formatSeconds(v float64) string {
	switch {
	case v == 0:
		return "0 s"
	case v < 1e-3:
		return number(v*1e6) + " µs"
	case v < 1:
		return number(v*1e3) + " ms"
	}
	return number(v) + " s"
}

func formatBytes(v float64) string {
	switch {
	case v < 1e4:
		return number(v) + " B"
	case v < 1e6:
		return number(v/1e3) + " kB"
	case v < 1e9:
		return number(v/1e6) + " MB"
	}
	return number(v/1e9) + " GB"
}

// number rounds to three digits, and leaves whole numbers whole.
func number(v float64) string {
	switch {
	case v == math.Trunc(v) || math.Abs(v) >= 100:
		return chart.Thousands(v)
	case math.Abs(v) >= 10:
		return trim(strconv.FormatFloat(v, 'f', 1, 64))
	case math.Abs(v) >= 1:
		return trim(strconv.FormatFloat(v, 'f', 2, 64))
	}
	return trim(strconv.FormatFloat(v, 'g', 2, 64))
}

// trim takes away zeros that say nothing.
func trim(s string) string {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return s
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// ratio writes how a value compares with this project's own: larger numbers are
// worse.
func ratio(v, own float64) string {
	if own == 0 || v == 0 {
		return ""
	}
	r := v / own
	switch {
	case r >= 9.95:
		return fmt.Sprintf("%s×", chart.Thousands(r))
	case r >= 0.1:
		return trim(strconv.FormatFloat(r, 'f', 2, 64)) + "×"
	}
	return trim(strconv.FormatFloat(r, 'g', 2, 64)) + "×"
}
