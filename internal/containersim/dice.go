package containersim

import "time"

// dice throw numbers that are a function of what they are thrown for: the same
// seed and words give the same throws in whatever order goroutines ask. That is
// what lets a story replay.
type dice struct{ state uint64 }

// throwFor returns the dice of the matter that the words name.
func throwFor(seed uint64, words ...string) *dice {
	h := scramble(seed + 0x632be59bd9b4e019)
	for _, word := range words {
		for i := range len(word) {
			h = (h ^ uint64(word[i])) * 0x100000001b3
		}
		// Keeps "ab", "c" apart from "a", "bc".
		h = scramble(h + uint64(len(word)))
	}
	return &dice{state: h}
}

// scramble is the finaliser of splitmix64.
func scramble(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// below returns a number from 0 to n-1.
func (d *dice) below(n int) int {
	d.state += 0x9e3779b97f4a7c15
	return int(scramble(d.state) % uint64(n))
}

// in1000 tells whether something happens that happens n times in a thousand.
func (d *dice) in1000(n int) bool { return d.below(1000) < n }

// between returns a duration that is an odd number of nanoseconds, so that
// hardly ever two things happen at one instant, where they have no order.
func (d *dice) between(low, high time.Duration) time.Duration {
	return (low + time.Duration(d.below(int(high-low)+1))) | 1
}

// pick returns one of the choices.
func pick[T any](d *dice, choices ...T) T { return choices[d.below(len(choices))] }
