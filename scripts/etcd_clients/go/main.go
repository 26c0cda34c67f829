// A client of etcd in Go, by etcd's own clientv3 and its recipes (concurrency), that judges what it was answered.
//
//	main ENDPOINT,ENDPOINT,…     one line of JSON a case to stdout; first {"begun":true}, when a node may be killed
//
// Always: a case passes only if every change that was acknowledged is there at the end, and every event came once and in order.
// Not here: who kills nodes (main.py); what Kubernetes' apiserver does (apiserver.go).

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const (
	dialTimeout = 5 * time.Second
	callTimeout = 4 * time.Second
	// What a case may take, with a leader's election in it.
	caseTimeout = 40 * time.Second
	retryPause  = 20 * time.Millisecond
	// How long cases write; a node is killed meanwhile.
	underKill = 9 * time.Second
)

var endpoints []string

// A client that begins at one of the nodes and may go to all of them.
func dial(first int) *clientv3.Client {
	first %= len(endpoints)
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            append(append([]string{}, endpoints[first:]...), endpoints[:first]...),
		DialTimeout:          dialTimeout,
		DialKeepAliveTime:    2 * time.Second,
		DialKeepAliveTimeout: 2 * time.Second,
		Logger:               zap.NewNop(),
	})
	if err != nil {
		panic(err)
	}
	return client
}

func call[T any](ctx context.Context, what func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return what(ctx)
}

// Repeats what may be done twice until it is answered, or the case's time is over.
func again[T any](ctx context.Context, what func(context.Context) (T, error)) (T, error) {
	for {
		answer, err := call(ctx, what)
		if err == nil || ctx.Err() != nil {
			return answer, err
		}
		time.Sleep(retryPause)
	}
}

func get(ctx context.Context, client *clientv3.Client, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	return again(ctx, func(ctx context.Context) (*clientv3.GetResponse, error) { return client.Get(ctx, key, opts...) })
}

func commit(ctx context.Context, client *clientv3.Client, ifs []clientv3.Cmp, then, otherwise []clientv3.Op) (*clientv3.TxnResponse, error) {
	return call(ctx, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return client.Txn(ctx).If(ifs...).Then(then...).Else(otherwise...).Commit()
	})
}

// A case: what it found, or what is wrong.
type check func(ctx context.Context) (note string, err error)

type result struct {
	Case string `json:"case"`
	OK   bool   `json:"ok"`
	Note string `json:"note"`
}

func run(name string, what check) (r result) {
	ctx, cancel := context.WithTimeout(context.Background(), caseTimeout)
	defer cancel()
	note, err := what(ctx)
	if err != nil {
		return result{name, false, err.Error()}
	}
	return result{name, true, note}
}

func main() {
	endpoints = strings.Split(os.Args[1], ",")
	out := json.NewEncoder(os.Stdout)
	_ = out.Encode(map[string]bool{"begun": true})
	cases := map[string]check{
		"compare-and-swap counter through all nodes":   counter,
		"every put that was acknowledged is there":     puts,
		"watch resumes: each event once, in order":     watchResumes,
		"session keeps its lease; mutex excludes":      mutex,
		"election has one leader at a time":            election,
		"lease that nobody keeps ends, with its keys":  leaseEnds,
		"apiserver: list, watch, bookmarks, relist":    apiserver,
		"apiserver: create, update, else branch, drop": guarded,
	}
	var all sync.WaitGroup
	var one sync.Mutex
	for name, what := range cases {
		all.Go(func() {
			r := run(name, what)
			one.Lock()
			defer one.Unlock()
			_ = out.Encode(r)
		})
	}
	all.Wait()
}

func wrong(text string, values ...any) (string, error) { return "", fmt.Errorf(text, values...) }
