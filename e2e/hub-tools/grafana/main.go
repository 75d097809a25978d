// Checks dashboards by Grafana's own schema: no field that it does not know, none that it requires is missing, and every value is
// valid.
//
//	go run . DASHBOARD.json …
package main

import (
	"fmt"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

func check(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var board dashboard.Dashboard
	if err := board.UnmarshalJSONStrict(text); err != nil {
		return err
	}
	return board.Validate()
}

func main() {
	plugins.RegisterDefaultPlugins()
	failed := false
	for _, file := range os.Args[1:] {
		// The library returns lists of errors that may be empty.
		if err := check(file); err != nil && err.Error() != "" {
			fmt.Fprintf(os.Stderr, "%s:\n%v\n", file, err)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
	fmt.Println("SUCCESS")
}
