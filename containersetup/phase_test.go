package containersetup

import "testing"

func TestPhasesComeInOrder(t *testing.T) {
	tests := []struct {
		about string
		p     progress
		want  Phase
	}{
		{"nobody asked", progress{}, PhaseIdle},
		{"nobody asked, whatever is done", progress{settings: true, initialised: true}, PhaseIdle},
		{"asked", progress{wanted: true}, PhaseSettings},
		{"settings known", progress{wanted: true, settings: true}, PhaseInitialise},
		{"host prepared", progress{wanted: true, settings: true, initialised: true}, PhaseNetwork},
		{"network published", progress{wanted: true, settings: true, initialised: true, published: true}, PhaseBroker},
		{"broker made", progress{wanted: true, settings: true, initialised: true, published: true, broker: true}, PhaseProvisioner},
		{"provisioner started", progress{wanted: true, settings: true, initialised: true, published: true, broker: true, started: true}, PhaseReady},
		{"settings to be read anew, the host not", progress{wanted: true, initialised: true, published: true}, PhaseSettings},
		{"refused", progress{wanted: true, settings: true, refused: true}, PhaseRefused},
	}
	for _, test := range tests {
		if got := test.p.next(); got != test.want {
			t.Errorf("%s: next() = %s, want %s", test.about, got, test.want)
		}
	}
}

// From every state, completing what is next leads to the end, and no phase comes
// twice on the way.
func TestPhasesEnd(t *testing.T) {
	for i := range 32 {
		p := progress{
			wanted: true, settings: i&1 > 0, initialised: i&2 > 0, published: i&4 > 0, broker: i&8 > 0, started: i&16 > 0,
		}
		seen := map[Phase]bool{}
		for p.next() != PhaseReady {
			phase := p.next()
			if seen[phase] {
				t.Fatalf("from %d: %s comes twice", i, phase)
			}
			seen[phase] = true
			p = p.completed(phase)
		}
	}
}
