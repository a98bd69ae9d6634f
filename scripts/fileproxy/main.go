// Command fileproxy puts a version of a module into a folder that the go command can use as a proxy:
//
//	fileproxy PROXY MODULE@VERSION SOURCE
//
// It makes the zip as the go command would make it of a repository, with the same checks, and leaves out the modules
// nested in SOURCE.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: fileproxy PROXY MODULE@VERSION SOURCE")
		os.Exit(2)
	}
	path, version, _ := strings.Cut(os.Args[2], "@")
	if err := add(os.Args[1], module.Version{Path: path, Version: version}, os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "fileproxy:", err)
		os.Exit(1)
	}
}

// add writes the files that the protocol of proxies asks for: list, info, mod and zip.
func add(proxy string, m module.Version, source string) error {
	escaped, err := module.EscapePath(m.Path)
	if err != nil {
		return err
	}
	if err := module.Check(m.Path, m.Version); err != nil {
		return err
	}
	dir := filepath.Join(proxy, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	mod, err := os.ReadFile(filepath.Join(source, "go.mod"))
	if err != nil {
		return err
	}
	info, err := json.Marshal(map[string]any{"Version": m.Version, "Time": time.Now()})
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"list": []byte(m.Version + "\n"), m.Version + ".mod": mod, m.Version + ".info": info,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	return writeZip(filepath.Join(dir, m.Version+".zip"), m, source)
}

func writeZip(file string, m module.Version, source string) error {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	if err := zip.CreateFromDir(out, m, source); err != nil {
		return err
	}
	return out.Close()
}
