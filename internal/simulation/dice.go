package simulation

import "time"

// dice makes choices that look random and are a function of what they are
// about: the same seed and the same words give the same throws, whatever else
// goes on and in whatever order. That is what lets a story replay although its
// goroutines are scheduled at random.
type dice struct{ state uint64 }

// throwFor returns dice for the matter that the words name.
func throwFor(seed uint64, n int, words ...string) *dice {
	h := mix(seed ^ 0x9e3779b97f4a7c15)
	for _, word := range words {
		for i := range len(word) {
			h = (h ^ uint64(word[i])) * 0x100000001b3
		}
		// Keeps "ab", "c" apart from "a", "bc".
		h = mix(h ^ uint64(len(word)))
	}
	return &dice{state: mix(h ^ uint64(n))}
}

// mix is the finaliser of splitmix64.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (d *dice) next() uint64 {
	d.state += 0x9e3779b97f4a7c15
	return mix(d.state)
}

// below returns a number from 0 to n-1.
func (d *dice) below(n int) int {
	return int(d.next() % uint64(n))
}

// in tells whether something happens that happens n times in a thousand.
func (d *dice) in1000(n int) bool { return d.below(1000) < n }

// between returns a duration from low to high that is an odd number of
// nanoseconds, so that hardly ever two things happen at one instant: what
// happens at one instant happens in no certain order.
func (d *dice) between(low, high time.Duration) time.Duration {
	return (low + time.Duration(d.below(int(high-low)+1))) | 1
}

// pick returns one of the choices.
func pick[T any](d *dice, choices ...T) T { return choices[d.below(len(choices))] }
