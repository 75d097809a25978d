// Says what GitOps tools make of objects, by the tools' own code: Argo CD runs a script in gopher-lua, and Flux reads kstatus or
// evaluates expressions.
//
//	go run . < INPUT.json
//
// INPUT is {"lua": SCRIPT, "expressions": {"inProgress": …, "failed": …, "current": …}, "objects": [OBJECT …]}. For each object it
// prints {"argo": HEALTH, "message": MESSAGE, "flux": STATUS, "kstatus": STATUS}.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/fluxcd/pkg/apis/kustomize"
	"github.com/fluxcd/pkg/runtime/cel"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

type input struct {
	Lua         string                           `json:"lua"`
	Expressions kustomize.HealthCheckExpressions `json:"expressions"`
	Objects     []unstructured.Unstructured      `json:"objects"`
}

type verdict struct {
	Argo    string `json:"argo"`
	Message string `json:"message"`
	Flux    string `json:"flux"`
	Kstatus string `json:"kstatus"`
}

func value(state *lua.LState, decoded any) lua.LValue {
	switch decoded := decoded.(type) {
	case bool:
		return lua.LBool(decoded)
	case int64:
		return lua.LNumber(decoded)
	case float64:
		return lua.LNumber(decoded)
	case string:
		return lua.LString(decoded)
	case []any:
		list := state.NewTable()
		for _, item := range decoded {
			list.Append(value(state, item))
		}
		return list
	case map[string]any:
		table := state.NewTable()
		for key, item := range decoded {
			table.RawSetString(key, value(state, item))
		}
		return table
	default:
		return lua.LNil
	}
}

func argo(script string, object map[string]any) (string, string, error) {
	// Argo CD opens no other libraries for a script of health either.
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{
		lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable, lua.StringLibName: lua.OpenString,
	} {
		if err := state.CallByParam(lua.P{Fn: state.NewFunction(open), Protect: true}, lua.LString(name)); err != nil {
			return "", "", err
		}
	}
	state.SetGlobal("obj", value(state, object))
	if err := state.DoString(script); err != nil {
		return "", "", err
	}
	health, isTable := state.Get(-1).(*lua.LTable)
	if !isTable {
		return "", "", fmt.Errorf("the script returns no table")
	}
	return lua.LVAsString(health.RawGetString("status")), lua.LVAsString(health.RawGetString("message")), nil
}

func run() error {
	var given input
	decoder := json.NewDecoder(os.Stdin)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&given); err != nil {
		return err
	}
	evaluator, err := cel.NewStatusEvaluator(&given.Expressions)
	if err != nil {
		return err
	}
	verdicts := make([]verdict, 0, len(given.Objects))
	for index := range given.Objects {
		object := &given.Objects[index]
		var found verdict
		if found.Argo, found.Message, err = argo(given.Lua, object.Object); err != nil {
			return err
		}
		flux, err := evaluator.Evaluate(context.Background(), object)
		if err != nil {
			return err
		}
		found.Flux = flux.Status.String()
		kstatus, err := status.Compute(object)
		if err != nil {
			return err
		}
		found.Kstatus = kstatus.Status.String()
		verdicts = append(verdicts, found)
	}
	return json.NewEncoder(os.Stdout).Encode(verdicts)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
