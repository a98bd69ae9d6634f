package metrics

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// kind is a kind of guard. Each has names of its own, since each has metrics of its own.
type kind string

const (
	breakerKind  kind = "breaker"
	bulkheadKind kind = "bulkhead"
	groupKind    kind = "group"
)

// names are those in use. Two guards of one name would be one series with two values, which fails a whole scrape.
type names struct {
	taken map[guardName]bool
	trees []string // what names of keys begin with, so no other name may
}

type guardName struct {
	kind kind
	name string
}

// claim takes the name of a guard of one kind, or says why it can't be had.
func (n *names) claim(k kind, name string) error {
	if err := n.check(k, k, name); err != nil {
		return err
	}
	n.taken[guardName{k, name}] = true
	return nil
}

// claimAll takes the name of a Group, which is also that of its breakers and bulkheads together.
func (n *names) claimAll(name string) error {
	kinds := []kind{groupKind, breakerKind, bulkheadKind}
	for _, k := range kinds {
		if err := n.check(groupKind, k, name); err != nil {
			return err
		}
	}
	for _, k := range kinds {
		n.taken[guardName{k, name}] = true
	}
	return nil
}

// claimTree takes the name of a Group, and those of its keys, whatever they will be.
func (n *names) claimTree(name string) error {
	tree := name + "/"
	for other := range n.taken {
		if strings.HasPrefix(other.name, tree) {
			return fmt.Errorf("group %q: a key of it could have the name of the %s %q", name, other.kind, other.name)
		}
	}
	if err := n.claimAll(name); err != nil {
		return err
	}
	n.trees = append(n.trees, tree)
	return nil
}

// check says why a guard of one kind can't have a name, nil if it can. The name must be free among those of kind
// among.
func (n *names) check(k, among kind, name string) error {
	if err := CheckName(name); err != nil {
		return fmt.Errorf("%s %q: %w", k, name, err)
	}
	if n.taken[guardName{among, name}] {
		return fmt.Errorf("%s %q: a %s of that name is exported already", k, name, among)
	}
	for _, tree := range n.trees {
		if strings.HasPrefix(name, tree) {
			return fmt.Errorf("%s %q: a key of the group %q could have that name", k, name, strings.TrimSuffix(tree, "/"))
		}
	}
	return nil
}

const maxNameBytes = 128

// CheckName says what is wrong with a name that is to be exported, whatever has it.
func CheckName(name string) error {
	if name == "" || len(name) > maxNameBytes || !utf8.ValidString(name) {
		return fmt.Errorf("a name that is exported must be 1 to %d bytes of valid UTF-8", maxNameBytes)
	}
	return nil
}

// clean makes what came from outside fit to be part of a name.
func clean(key string) string {
	key = strings.ToValidUTF8(key, string(utf8.RuneError))
	if len(key) > maxNameBytes {
		key = strings.ToValidUTF8(key[:maxNameBytes], "") // without the half of a character at the cut
	}
	return key
}
