// Package container has the words that container set-up and provisioning
// share: ids and types, and the small interfaces behind which a back end and
// the machine lock stand. Package containersetup offers them under the same
// names, so most hosts import that alone.
//
// # Writing a back end
//
// An [Initialiser] prepares the machine for one type of container; a [Broker]
// then makes and removes its instances. Both are called from many goroutines
// at once, take a context first and return promptly when that is cancelled.
// What they must bear is proved by the suite in containersetup/backendtest.
package container
