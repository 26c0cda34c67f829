// Command judge decides whether histories of clients are linearizable. It stands apart from Hive on purpose: the search is
// Porcupine's, and nothing of Hive's own checkers is used.
//
//	judge [-seconds 60] [-pictures DIR] HISTORY
//
// HISTORY has one operation a line, as JSON (history.py writes it):
//
//	{"model":"register","key":"r3","client":5,"op":"put","value":"17","start":12,"end":34,"outcome":"ok"}
//
//	model     ops                                               result
//	register  put value | get | delete                          get: text or null
//	          set-if expected value (none: absent)              true or false
//	list      append value | read                               append: length; read: list of texts
//	batch     write value (to every key of a group) | get       get: text or null, of any one key of the group
//
// Times are nanoseconds of one clock. An operation of outcome "unknown" may take effect at any later moment or never: it
// stays open until the end. Operations that were refused for certain are not in a history.
//
// Standard output: one JSON object, the verdict. Exit code: 0 all linearizable, 1 a violation, 2 bad input,
// 3 a search did not end in time (never counted as linearizable).
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// A longer line is bad input: a list of a history has a few hundred short items.
const lineBytesMax = 4 << 20

type record struct {
	Model    string          `json:"model"`
	Key      string          `json:"key"`
	Client   int             `json:"client"`
	Op       string          `json:"op"`
	Value    string          `json:"value"`
	Expected *string         `json:"expected"`
	Start    int64           `json:"start"`
	End      int64           `json:"end"`
	Outcome  string          `json:"outcome"`
	Result   json.RawMessage `json:"result"`
}

type input struct {
	op, value string
	expected  *string
}

// What the client saw. `unknown`: it saw nothing.
type output struct {
	unknown bool
	value   *string
	applied bool
	length  int
	items   []string
}

type failure struct {
	Model      string `json:"model"`
	Key        string `json:"key"`
	Operations int    `json:"operations"`
	Picture    string `json:"picture,omitempty"`
}

type verdict struct {
	Operations   int       `json:"operations"`
	Unknown      int       `json:"unknown"`
	Keys         int       `json:"keys"`
	Linearizable int       `json:"linearizable"`
	GaveUp       []failure `json:"gave_up"`
	Violations   []failure `json:"violations"`
}

func same(one, other *string) bool {
	if one == nil || other == nil {
		return one == other
	}
	return *one == *other
}

// The state of a register and of a batch's group: nil for absent.
func stepRegister(state, in, out interface{}) (bool, interface{}) {
	now, asked, seen := state.(*string), in.(input), out.(output)
	switch asked.op {
	case "put", "write":
		return true, &asked.value
	case "delete":
		return true, (*string)(nil)
	case "get":
		return seen.unknown || same(seen.value, now), now
	default: // set-if
		matches := same(asked.expected, now)
		if !seen.unknown && seen.applied != matches {
			return false, now
		}
		if matches {
			return true, &asked.value
		}
		return true, now
	}
}

// The state of a list: its items, each followed by a line feed.
func stepList(state, in, out interface{}) (bool, interface{}) {
	now, asked, seen := state.(string), in.(input), out.(output)
	if asked.op == "append" {
		next := now + asked.value + "\n"
		return seen.unknown || seen.length == strings.Count(next, "\n"), next
	}
	expected := ""
	if len(seen.items) > 0 {
		expected = strings.Join(seen.items, "\n") + "\n"
	}
	return seen.unknown || expected == now, now
}

func describe(in, out interface{}) string {
	asked, seen := in.(input), out.(output)
	text := asked.op + " " + asked.value
	if asked.expected != nil {
		text += " if " + *asked.expected
	}
	switch {
	case seen.unknown:
		return text + " -> unknown"
	case asked.op == "get" && seen.value == nil:
		return text + "-> absent"
	case asked.op == "get":
		return text + "-> " + *seen.value
	case asked.op == "read":
		return text + "-> " + strings.Join(seen.items, ",")
	case asked.op == "append":
		return fmt.Sprintf("%s -> length %d", text, seen.length)
	case asked.op == "set-if":
		return fmt.Sprintf("%s -> %v", text, seen.applied)
	}
	return text + " -> ok"
}

var register = porcupine.Model{
	Init:              func() interface{} { return (*string)(nil) },
	Step:              stepRegister,
	Equal:             func(one, other interface{}) bool { return same(one.(*string), other.(*string)) },
	DescribeOperation: describe,
}

var list = porcupine.Model{
	Init:              func() interface{} { return "" },
	Step:              stepList,
	DescribeOperation: describe,
}

var models = map[string]struct {
	model porcupine.Model
	ops   string
}{
	"register": {register, "put get set-if delete"},
	"batch":    {register, "write get"},
	"list":     {list, "append read"},
}

// operation reads one line. What is wrong with it is said with the line's number by the caller.
func operation(line []byte) (record, porcupine.Operation, error) {
	var read record
	if err := json.Unmarshal(line, &read); err != nil {
		return read, porcupine.Operation{}, err
	}
	known, ok := models[read.Model]
	if !ok {
		return read, porcupine.Operation{}, fmt.Errorf("no model is called %q", read.Model)
	}
	if !strings.Contains(" "+known.ops+" ", " "+read.Op+" ") {
		return read, porcupine.Operation{}, fmt.Errorf("model %s has no operation %q", read.Model, read.Op)
	}
	seen := output{unknown: read.Outcome == "unknown"}
	if !seen.unknown {
		if read.Outcome != "ok" {
			return read, porcupine.Operation{}, fmt.Errorf("outcome %q is neither ok nor unknown", read.Outcome)
		}
		if read.End < read.Start {
			return read, porcupine.Operation{}, fmt.Errorf("ends before it starts")
		}
		var target interface{}
		switch read.Op {
		case "get":
			target = &seen.value
		case "set-if":
			target = &seen.applied
		case "append":
			target = &seen.length
		case "read":
			target = &seen.items
		}
		if target != nil {
			if err := json.Unmarshal(read.Result, target); err != nil {
				return read, porcupine.Operation{}, fmt.Errorf("result %s: %w", read.Result, err)
			}
		}
	}
	in := input{op: read.Op, value: read.Value, expected: read.Expected}
	return read, porcupine.Operation{ClientId: read.Client, Input: in, Call: read.Start, Output: seen, Return: read.End}, nil
}

func load(path string) (map[string][]porcupine.Operation, *verdict, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	parts, told, last := map[string][]porcupine.Operation{}, &verdict{}, int64(0)
	lines := bufio.NewScanner(file)
	lines.Buffer(make([]byte, 64<<10), lineBytesMax)
	for number := 1; lines.Scan(); number++ {
		read, op, err := operation(lines.Bytes())
		if err != nil {
			return nil, nil, fmt.Errorf("%s:%d: %w", path, number, err)
		}
		told.Operations++
		if op.Output.(output).unknown {
			told.Unknown++
			// A read that was not answered says nothing.
			if read.Op == "get" || read.Op == "read" {
				continue
			}
			op.Return = -1
		}
		last = max(last, max(read.Start, read.End))
		name := read.Model + "/" + read.Key
		parts[name] = append(parts[name], op)
	}
	for _, ops := range parts {
		for at := range ops {
			if ops[at].Return < 0 {
				ops[at].Return = last + 1
			}
		}
	}
	return parts, told, lines.Err()
}

func picture(dir, name string, model porcupine.Model, info porcupine.LinearizationInfo) string {
	if dir == "" {
		return ""
	}
	path := filepath.Join(dir, strings.ReplaceAll(name, "/", "-")+".html")
	if err := porcupine.VisualizePath(model, info, path); err != nil {
		fmt.Fprintln(os.Stderr, "no picture of", name+":", err)
		return ""
	}
	return path
}

func main() {
	seconds := flag.Int("seconds", 60, "for the search of one key")
	pictures := flag.String("pictures", "", "where a page for each violation is written")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: judge [-seconds N] [-pictures DIR] HISTORY")
		os.Exit(2)
	}
	parts, told, err := load(flag.Arg(0))
	if err != nil {
		fmt.Fprintln(os.Stderr, "judge:", err)
		os.Exit(2)
	}
	names := make([]string, 0, len(parts))
	for name := range parts {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		kind, key, _ := strings.Cut(name, "/")
		model := models[kind].model
		result, info := porcupine.CheckOperationsVerbose(model, parts[name], time.Duration(*seconds)*time.Second)
		told.Keys++
		found := failure{Model: kind, Key: key, Operations: len(parts[name])}
		switch result {
		case porcupine.Ok:
			told.Linearizable++
		case porcupine.Unknown:
			told.GaveUp = append(told.GaveUp, found)
		default:
			found.Picture = picture(*pictures, name, model, info)
			told.Violations = append(told.Violations, found)
		}
	}
	text, _ := json.Marshal(told)
	fmt.Println(string(text))
	switch {
	case len(told.Violations) > 0:
		os.Exit(1)
	case len(told.GaveUp) > 0:
		os.Exit(3)
	}
}
