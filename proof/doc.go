// Package proof holds seawall to its design, from outside. It has no code of its own, only tests: searches that
// compare seawall with the reference models of package model (rapid, exhaustive, linearizable, fuzz), tests of all
// that waits (sync), a simulated fleet and a soak test. Directory spec has the protocol for a model checker, faults
// the faults that the methods must find, and mutate a mutation tester.
//
// A test prints what it reached in a line that begins with "proof:". The environment variable SEAWALL_PROOF says how
// far the searches go: unset for every push, "release" before a release, "quick" where they run on one broken
// seawall after the other.
package proof
