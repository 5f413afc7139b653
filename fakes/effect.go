package fakes

import (
	"fmt"
	"time"
)

// Extent is how much a call that is to fail does before it fails.
type Extent int

const (
	// Nothing: the call fails and has changed nothing.
	Nothing Extent = iota
	// Half: EnsureOperator, StageOperator and KeepOperator store the
	// configuration and start nothing, DeleteOperator takes the operator away and leaves its
	// configuration, SetPasswords sets the first half of the passwords.
	// What it is for machines and hosts is said at [Machine] and [Host].
	// For every other method it is as Nothing.
	Half
	// Fully: the call does all of its work; only the reply is lost.
	Fully
)

// Effect is what happens to a call besides, or instead of, what the fake does
// by itself. Its zero value is nothing at all. The parts take place in the
// order in which they are listed here.
type Effect struct {
	// Delay passes on the clock before anything is done. A call whose
	// context ends meanwhile returns the context's error and has done
	// nothing.
	Delay time.Duration
	// Gate, when not nil, holds the call until it is released or the
	// context ends.
	Gate *Gate
	// Before, when not nil, is called before the fake acts. It may call
	// any method of the fakes, to change their state between two reads for
	// instance.
	Before func()
	// Act is how much is done although the call fails. It matters only
	// with Err or Panic.
	Act Extent
	// Answer, when not nil, is given what the call is about to return
	// besides its error and returns what takes its place: [Return],
	// [Alter], [Short], [Long] and [Reversed] make such functions. It is
	// not asked when the call fails.
	Answer func(any) any
	// Then, when not nil, is called after the fake has acted, as Before is
	// before.
	Then func()
	// Late passes on the clock after the fake has acted. A call whose
	// context ends meanwhile has acted and returns the context's error.
	Late time.Duration
	// Panic, when not nil, is what the call panics with.
	Panic any
	// Err, when not nil, is what the call returns.
	Err error

	// Deaf makes the call ignore its context, as a back end does that
	// cannot be interrupted.
	Deaf bool
}

func (e Effect) fails() bool { return e.Err != nil || e.Panic != nil }

// acts tells whether the fake does its work, or half of it.
func (e Effect) acts() bool { return !e.fails() || e.Act != Nothing }

// Return makes an [Effect.Answer] that is v whatever the true answer is. A nil
// v stands for the zero value of the answer's type.
func Return(v any) func(any) any {
	return func(any) any { return v }
}

// Alter makes an [Effect.Answer] that is the true answer, changed by f. T is
// the type that the method returns.
func Alter[T any](f func(T) T) func(any) any {
	return func(v any) any {
		answer, ok := v.(T)
		if !ok && v != nil {
			panic(fmt.Sprintf("fakes: Alter of %T, and the answer is %T", answer, v))
		}
		return f(answer)
	}
}

// Short makes an [Effect.Answer] that leaves out the last element of a list of
// T, as in Short[error]() for SetPasswords.
func Short[T any]() func(any) any {
	return Alter(func(list []T) []T { return list[:max(len(list)-1, 0)] })
}

// Long makes an [Effect.Answer] that adds a zero element to a list of T.
func Long[T any]() func(any) any {
	return Alter(func(list []T) []T {
		var zero T
		return append(list, zero)
	})
}

// Reversed makes an [Effect.Answer] that turns a list of T round.
func Reversed[T any]() func(any) any {
	return Alter(func(list []T) []T {
		for i, j := 0, len(list)-1; i < j; i, j = i+1, j-1 {
			list[i], list[j] = list[j], list[i]
		}
		return list
	})
}

// altered is the answer v as the effect has it.
func altered[T any](e Effect, v T) T {
	if e.Answer == nil {
		return v
	}
	var zero T
	switch answer := e.Answer(v).(type) {
	case nil:
		return zero
	case T:
		return answer
	default:
		panic(fmt.Sprintf("fakes: Effect.Answer gave %T in place of %T", answer, zero))
	}
}
