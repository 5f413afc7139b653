package leader

import (
	"sync"
	"testing"
)

// is says which of a term's channels are closed.
func is(term *Term) (elected, over, vacated bool) {
	return closed(term.Elected()), closed(term.Over()), closed(term.vacated)
}

func TestTermOnlyMovesForward(t *testing.T) {
	const begin, end, enter, leave = "begin", "end", "enter", "leave"
	tests := []struct {
		about                  string
		steps                  []string
		refused                int // begins and enters that were
		elected, over, vacated bool
	}{
		{"to come", nil, 0, false, false, false},
		{"nobody enters before it", []string{enter}, 1, false, false, false},
		{"under way", []string{begin}, 0, true, false, false},
		{"it begins once", []string{begin, begin}, 1, true, false, false},
		{"over", []string{begin, end}, 0, true, true, true},
		{"it ends once", []string{begin, end, end}, 0, true, true, true},
		{"over before it began", []string{end}, 0, false, true, true},
		{"it does not begin after its end", []string{end, begin, enter}, 2, false, true, true},
		{"nobody enters after it", []string{begin, end, enter}, 1, true, true, true},
		{"one is still inside", []string{begin, enter, enter, leave, end}, 0, true, true, false},
		{"the last has left", []string{begin, enter, enter, leave, end, leave}, 0, true, true, true},
		{"all had left, and came again", []string{begin, enter, leave, enter, end, leave}, 0, true, true, true},
	}
	for _, test := range tests {
		t.Run(test.about, func(t *testing.T) {
			term, refused := newTerm(), 0
			for _, step := range test.steps {
				switch step {
				case begin:
					if !term.begin() {
						refused++
					}
				case end:
					term.end()
				case enter:
					if !term.enter() {
						refused++
					}
				case leave:
					term.leave()
				}
			}
			elected, over, vacated := is(term)
			if refused != test.refused || elected != test.elected || over != test.over || vacated != test.vacated {
				t.Errorf("%d refused, elected %v, over %v, vacated %v", refused, elected, over, vacated)
			}
			if leading := elected && !over; term.Leading() != leading {
				t.Errorf("Leading() = %v, want %v", term.Leading(), leading)
			}
		})
	}
}

func TestTermIsVacatedOnceWhoeverIsLast(t *testing.T) {
	for range 200 {
		term := newTerm()
		term.begin()
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if term.enter() {
					term.leave()
				}
			})
		}
		wg.Go(term.end)
		wg.Go(term.end)
		wg.Wait()
		if _, over, vacated := is(term); !over || !vacated || term.inside() != 0 {
			t.Fatalf("over %v, vacated %v, %d inside", over, vacated, term.inside())
		}
	}
}
