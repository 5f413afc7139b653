// Package draw makes pictures for documentation from a few lines of text: sequences and
// state diagrams, as SVG. The same text always makes the same picture, so a picture can be
// committed beside its text and a test can compare them.
//
// # Sequences
//
//	sequence The title
//	actor P provisioner
//	actor M operator manager
//	P -> M: StageOperator
//	M --> P: generation
//	note P: mint one
//	note P M: over both
//	crash: what the next pass does
//	frame what it is about
//	else otherwise
//	end
//
// # State diagrams
//
//	states The title
//	state queued 0 0: about to be looked at
//	state done 1 0 end: nothing is left
//	queued -> done: why
//	done -> queued bend 40 at 0.3: how
//
// The numbers are column and row. The line between two states is straight unless it is
// bent by so many pixels to its left; what is said of it stands in its middle, or at that
// part of its length.
package draw
