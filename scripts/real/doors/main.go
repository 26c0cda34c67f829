// Command doors is the clients of one history in which two doors write, read and compare the same keys: etcd's own Go client or go-redis,
// and JSON over HTTP. Each operation goes through a drawn node.
//
//	doors -seconds 30 -seed 7 -history FILE ETCD,ETCD,… HTTP,HTTP,…
//	doors -redis -keyspace NAME … -history FILE REDIS,REDIS,… HTTP,HTTP,…
//
// Always: one clock for all; what was not answered is `unknown`, and its client goes on under another name; what was refused for certain is
// left out. After the time each key is read once more through every node by both doors.
// Not here: who kills nodes (case_doors.py), whether the history is right (../judge).
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const (
	clientsOfADoor = 4
	slots          = 3
	// A key is left for the next one after so long: short histories are searched quickly.
	keyTime     = 2 * time.Second
	callTimeout = 2500 * time.Millisecond
	pause       = 3 * time.Millisecond
	// Final reads: until every node answers, or the world counts as not healed.
	finalTime = 60 * time.Second
	// Of an answer of the JSON door.
	answerBytesMax = 1 << 20
)

// One operation, as the judge reads it. `door` is for people.
type record struct {
	Model    string  `json:"model"`
	Key      string  `json:"key"`
	Client   int64   `json:"client"`
	Op       string  `json:"op"`
	Value    string  `json:"value,omitempty"`
	Expected *string `json:"expected,omitempty"`
	Start    int64   `json:"start"`
	End      int64   `json:"end"`
	Outcome  string  `json:"outcome"`
	Result   any     `json:"result"`
	Door     string  `json:"door"`
	Node     int     `json:"node"`
}

type outcome int

const (
	done outcome = iota
	refused
	unknown
)

// A way in: carries an operation out through a node. The result is a *string of a get, a bool of a set-if.
type door interface {
	name() string
	do(node int, r *record) (any, outcome)
}

type etcd struct{ clients []*clientv3.Client }

func (etcd) name() string { return "etcd" }

func (d etcd) do(node int, r *record) (any, outcome) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	client := d.clients[node]
	switch r.Op {
	case "get":
		answer, err := client.Get(ctx, r.Key)
		if err != nil {
			return nil, unknown
		}
		if len(answer.Kvs) == 0 {
			return (*string)(nil), done
		}
		value := string(answer.Kvs[0].Value)
		return &value, done
	case "put":
		_, err := client.Put(ctx, r.Key, r.Value)
		return nil, sure(err)
	case "delete":
		_, err := client.Delete(ctx, r.Key)
		return nil, sure(err)
	default: // set-if
		condition := clientv3.Compare(clientv3.CreateRevision(r.Key), "=", 0)
		if r.Expected != nil {
			condition = clientv3.Compare(clientv3.Value(r.Key), "=", *r.Expected)
		}
		answer, err := client.Txn(ctx).If(condition).Then(clientv3.OpPut(r.Key, r.Value)).Commit()
		if err != nil {
			return nil, unknown
		}
		return answer.Succeeded, done
	}
}

// Whatever error etcd's client reports, the change may have been done.
func sure(err error) outcome {
	if err != nil {
		return unknown
	}
	return done
}

// Clients of the Redis door; each picks the keyspace by its user.
type redisDoor struct{ clients []*redis.Client }

func (redisDoor) name() string { return "redis" }

func (d redisDoor) do(node int, r *record) (any, outcome) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	client := d.clients[node]
	switch r.Op {
	case "get":
		value, err := client.Get(ctx, r.Key).Result()
		if errors.Is(err, redis.Nil) {
			return (*string)(nil), done
		}
		if err != nil {
			return nil, unknown
		}
		return &value, done
	case "put":
		return nil, sure(client.Set(ctx, r.Key, r.Value, 0).Err())
	case "delete":
		return nil, sure(client.Del(ctx, r.Key).Err())
	default: // set-if
		words := []any{"SET", r.Key, r.Value, "NX"}
		if r.Expected != nil {
			words = []any{"SET", r.Key, r.Value, "IFEQ", *r.Expected}
		}
		err := client.Do(ctx, words...).Err()
		if errors.Is(err, redis.Nil) {
			return false, done
		}
		return err == nil, sure(err)
	}
}

type jsonDoor struct {
	keyspace  string
	addresses []string
}

func (jsonDoor) name() string { return "json" }

func (d jsonDoor) do(node int, r *record) (any, outcome) {
	asked := map[string]any{"keyspace": d.keyspace, "key": r.Key, "deadline_ms": 2000}
	switch r.Op {
	case "get":
		asked["action"], asked["read_consistency"] = "KvGet", "strong"
	case "put":
		asked["action"], asked["value"] = "KvPut", r.Value
	case "delete":
		asked["action"] = "KvDelete"
	default:
		asked["action"], asked["value"] = "KvCompareAndSet", r.Value
		if r.Expected != nil {
			asked["expected"] = *r.Expected
		}
	}
	body, _ := json.Marshal(asked)
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, "POST", d.addresses[node], bytes.NewReader(body))
	if err != nil {
		return nil, refused
	}
	response, err := http.DefaultClient.Do(request)
	if dial := (*net.OpError)(nil); errors.As(err, &dial) && dial.Op == "dial" {
		return nil, refused
	}
	if err != nil {
		return nil, unknown
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, answerBytesMax))
	var answer struct {
		OK    bool    `json:"ok"`
		Value *string `json:"value"`
		Error struct {
			Outcome string `json:"outcome"`
		} `json:"error"`
	}
	if err != nil || json.Unmarshal(text, &answer) != nil {
		return nil, unknown
	}
	switch {
	case r.Op == "set-if" && response.StatusCode == http.StatusPreconditionFailed:
		return false, done
	case answer.OK && r.Op == "get":
		return answer.Value, done
	case answer.OK && r.Op == "set-if":
		return true, done
	case answer.OK:
		return nil, done
	case answer.Error.Outcome == "not_applied":
		return nil, refused
	}
	return nil, unknown
}

type history struct {
	began   time.Time
	lock    sync.Mutex
	records []record
	names   atomic.Int64
	values  atomic.Int64
	// What was last seen of a key, for a comparison that has a chance.
	seen sync.Map
}

func (h *history) now() int64 { return time.Since(h.began).Nanoseconds() }

// Carries one operation out and writes it down; whether it was answered.
func (h *history) one(d door, node int, r record) bool {
	r.Model, r.Door, r.Node, r.Start = "register", d.name(), node+1, h.now()
	result, how := d.do(node, &r)
	r.End = h.now()
	if how == refused || how == unknown && r.Op == "get" {
		return how == refused && r.Op != "get"
	}
	r.Outcome, r.Result = "ok", result
	if how == unknown {
		r.Outcome, r.Result = "unknown", nil
	}
	if value, ok := result.(*string); ok {
		h.seen.Store(r.Key, value)
	} else if how == done && (r.Op == "put" || result == true) {
		value := r.Value
		h.seen.Store(r.Key, &value)
	}
	h.lock.Lock()
	defer h.lock.Unlock()
	h.records = append(h.records, r)
	return how == done
}

func (h *history) work(d door, nodes int, drawn *rand.Rand, until time.Time) {
	client := h.names.Add(1)
	for time.Now().Before(until) {
		turn := time.Since(h.began) / keyTime
		r := record{Key: fmt.Sprintf("doors/%d/%d", drawn.Intn(slots), turn), Client: client}
		switch at := drawn.Intn(100); {
		case at < 45:
			r.Op = "get"
		case at < 70:
			r.Op = "put"
		case at < 76:
			r.Op = "delete"
		default:
			r.Op = "set-if"
			if known, ok := h.seen.Load(r.Key); ok {
				r.Expected = known.(*string)
			}
		}
		if r.Op == "put" || r.Op == "set-if" {
			r.Value = fmt.Sprint(h.values.Add(1))
		}
		if !h.one(d, drawn.Intn(nodes), r) {
			// Its operation is still open.
			client = h.names.Add(1)
		}
		time.Sleep(pause)
	}
}

// Reads every key once more by each door through each node.
func (h *history) finish(doors []door, nodes int) error {
	keys := map[string]bool{}
	for _, r := range h.records {
		keys[r.Key] = true
	}
	until := time.Now().Add(finalTime)
	for key := range keys {
		for node := range nodes {
			for _, d := range doors {
				for !h.one(d, node, record{Key: key, Op: "get", Client: h.names.Add(1)}) {
					if time.Now().After(until) {
						return fmt.Errorf("%s cannot be read through node %d by the %s door after the faults", key, node+1, d.name())
					}
					time.Sleep(100 * time.Millisecond)
				}
			}
		}
	}
	return nil
}

func (h *history) write(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	lines := json.NewEncoder(file)
	for _, r := range h.records {
		if err := lines.Encode(r); err != nil {
			return err
		}
	}
	return file.Close()
}

func etcdDoor(addresses []string) (door, error) {
	var own etcd
	for _, address := range addresses {
		client, err := clientv3.New(clientv3.Config{
			Endpoints: []string{address}, DialTimeout: callTimeout, DialKeepAliveTime: 2 * time.Second,
			DialKeepAliveTimeout: 2 * time.Second, Logger: zap.NewNop(),
		})
		if err != nil {
			return nil, err
		}
		own.clients = append(own.clients, client)
	}
	return own, nil
}

func doorOfRedis(keyspace string, addresses []string) door {
	var own redisDoor
	for _, address := range addresses {
		// A write that is sent again by the client itself would be two.
		own.clients = append(own.clients, redis.NewClient(&redis.Options{
			Addr: strings.TrimPrefix(address, "redis://"), Username: "any@" + keyspace, Password: "any", MaxRetries: -1,
			DialTimeout: callTimeout, ReadTimeout: callTimeout, WriteTimeout: callTimeout, ContextTimeoutEnabled: true,
		}))
	}
	return own
}

func run(seconds int, seed int64, path string, first door, keyspace string, https []string) error {
	doors, nodes := []door{first, jsonDoor{keyspace, https}}, len(https)
	h := &history{began: time.Now()}
	until := h.began.Add(time.Duration(seconds) * time.Second)
	var all sync.WaitGroup
	for number := range clientsOfADoor * len(doors) {
		drawn := rand.New(rand.NewSource(seed + int64(number)))
		all.Go(func() { h.work(doors[number%len(doors)], nodes, drawn, until) })
	}
	all.Wait()
	if err := h.finish(doors, nodes); err != nil {
		return err
	}
	return h.write(path)
}

func main() {
	seconds := flag.Int("seconds", 30, "how long clients work")
	seed := flag.Int64("seed", 1, "of what they draw")
	path := flag.String("history", "", "the file to write")
	byRedis := flag.Bool("redis", false, "the first door is Redis', not etcd's")
	keyspace := flag.String("keyspace", "etcd", "whose keys")
	flag.Parse()
	if flag.NArg() != 2 || *path == "" {
		fmt.Fprintln(os.Stderr, "usage: doors -history FILE [-seconds N] [-seed N] [-redis] [-keyspace NAME] ETCD,…|REDIS,… HTTP,…")
		os.Exit(2)
	}
	addresses, https := strings.Split(flag.Arg(0), ","), strings.Split(flag.Arg(1), ",")
	if len(addresses) != len(https) {
		fmt.Fprintln(os.Stderr, "doors: give as many addresses of one door as of the other")
		os.Exit(2)
	}
	first, err := doorOfRedis(*keyspace, addresses), error(nil)
	if !*byRedis {
		first, err = etcdDoor(addresses)
	}
	if err == nil {
		err = run(*seconds, *seed, *path, first, *keyspace, https)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "doors:", err)
		os.Exit(1)
	}
}
