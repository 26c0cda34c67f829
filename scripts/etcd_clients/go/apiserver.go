// What Kubernetes' apiserver asks of etcd: lists by pages at one revision, watches with bookmarks from there, creations and updates on
// condition with a read in the else branch, compaction and a list anew after it.

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	registry = "/registry/pods/default/"
	objects  = 60
	page     = 7
	// Without events etcd sends a bookmark to who wants one when asked (RequestProgress).
	bookmarkMax = 15 * time.Second
)

func object(i int) string { return fmt.Sprintf("%spod-%03d", registry, i) }

func create(ctx context.Context, client *clientv3.Client, key, value string) (*clientv3.TxnResponse, error) {
	return commit(ctx, client, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", 0)},
		[]clientv3.Op{clientv3.OpPut(key, value)}, []clientv3.Op{clientv3.OpGet(key)})
}

func update(ctx context.Context, client *clientv3.Client, key, value string, seen int64) (*clientv3.TxnResponse, error) {
	return commit(ctx, client, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", seen)},
		[]clientv3.Op{clientv3.OpPut(key, value)}, []clientv3.Op{clientv3.OpGet(key)})
}

// All objects by pages, each page at the revision of the first: key to value, and that revision.
func list(ctx context.Context, client *clientv3.Client) (map[string]string, int64, error) {
	found, revision, next := map[string]string{}, int64(0), registry
	for {
		got, err := get(ctx, client, next, clientv3.WithRange(clientv3.GetPrefixRangeEnd(registry)), clientv3.WithLimit(page), clientv3.WithRev(revision))
		if err != nil {
			return nil, 0, err
		}
		if revision == 0 {
			revision = got.Header.Revision
		}
		for _, kv := range got.Kvs {
			if kv.ModRevision > revision {
				return nil, 0, fmt.Errorf("a page at revision %d has %s of revision %d", revision, kv.Key, kv.ModRevision)
			}
			found[string(kv.Key)] = string(kv.Value)
			next = string(kv.Key) + "\x00"
		}
		if !got.More {
			return found, revision, nil
		}
		if got.Count <= int64(len(got.Kvs)) {
			return nil, 0, fmt.Errorf("there is more, but the count is %d", got.Count)
		}
	}
}

// A reflector: list, then watch; its copy is the store's at each revision that it is told of. Objects change meanwhile, and at last
// the history is compacted: a watch from before is refused with the revision to go on from, and a new list has everything.
func apiserver(ctx context.Context) (string, error) {
	client := dial(0)
	defer client.Close()
	for i := range objects / 2 {
		if _, err := again(ctx, func(ctx context.Context) (*clientv3.TxnResponse, error) { return create(ctx, client, object(i), "0") }); err != nil {
			return "", err
		}
	}
	var changed atomic.Int64
	done := make(chan error, 1)
	go func() { done <- each(change(ctx, &changed)) }()
	// Lists while others write: what came after the list's revision must come by the watch.
	copied, revision, err := list(ctx, client)
	if err != nil {
		return "", err
	}
	first := revision
	if revision, err = reflect(ctx, client, copied, revision, done); err != nil {
		return "", err
	}
	listed, at, err := list(ctx, client)
	if err != nil {
		return "", err
	}
	if at < revision || len(listed) != len(copied) {
		return wrong("a list at %d has %d objects, the watcher's copy at %d has %d", at, len(listed), revision, len(copied))
	}
	for key, value := range listed {
		if copied[key] != value {
			return wrong("%s is %s; the watcher's copy says %s", key, value, copied[key])
		}
	}
	if err := compacted(ctx, client, first, revision); err != nil {
		return "", err
	}
	if relisted, _, err := list(ctx, client); err != nil || len(relisted) != len(listed) {
		return wrong("after compaction a list has %d objects of %d: %v", len(relisted), len(listed), err)
	}
	return fmt.Sprintf("%d changes of %d objects", changed.Load(), objects), nil
}

// Changes, deletes or creates an object as the apiserver does, through any node.
func change(ctx context.Context, changed *atomic.Int64) func(int, *clientv3.Client) error {
	return func(writer int, client *clientv3.Client) error {
		number := changed.Add(1)
		key := object(int(number*7+int64(writer)) % objects)
		got, err := get(ctx, client, key)
		if err != nil {
			return err
		}
		value := strconv.FormatInt(number, 10)
		switch {
		case len(got.Kvs) == 0:
			_, _ = create(ctx, client, key, value)
		case number%10 == 0:
			same := clientv3.Compare(clientv3.ModRevision(key), "=", got.Kvs[0].ModRevision)
			_, _ = commit(ctx, client, []clientv3.Cmp{same}, []clientv3.Op{clientv3.OpDelete(key)}, []clientv3.Op{clientv3.OpGet(key)})
		default:
			_, _ = update(ctx, client, key, value, got.Kvs[0].ModRevision)
		}
		return nil
	}
}

// Follows changes into the copy until the writers are done and a bookmark says that nothing is missing.
func reflect(ctx context.Context, client *clientv3.Client, copied map[string]string, revision int64, done chan error) (int64, error) {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	watch := func() clientv3.WatchChan {
		return client.Watch(ctx, registry, clientv3.WithPrefix(), clientv3.WithRev(revision+1), clientv3.WithPrevKV(), clientv3.WithProgressNotify())
	}
	events, goal, limit := watch(), int64(0), make(<-chan time.Time)
	progress := time.NewTicker(200 * time.Millisecond)
	defer progress.Stop()
	for {
		select {
		case err := <-done:
			last, err2 := get(ctx, client, registry, clientv3.WithCountOnly())
			if err = errors.Join(err, err2); err != nil {
				return 0, err
			}
			done, goal, limit = nil, last.Header.Revision, time.After(bookmarkMax)
		case <-progress.C:
			if goal != 0 {
				_ = client.RequestProgress(ctx)
			}
		case <-limit:
			return 0, fmt.Errorf("no bookmark for revision %d within %s; the last is %d", goal, bookmarkMax, revision)
		case batch, open := <-events:
			if !open || isNoLeader(batch.Err()) {
				events = watch()
				continue
			}
			if batch.Err() != nil {
				return 0, batch.Err()
			}
			var err error
			if revision, err = apply(copied, batch, revision); err != nil {
				return 0, err
			}
			if goal != 0 && revision >= goal {
				return revision, nil
			}
		}
	}
}

func apply(copied map[string]string, batch clientv3.WatchResponse, revision int64) (int64, error) {
	if batch.IsProgressNotify() {
		return max(revision, batch.Header.Revision), nil
	}
	for _, event := range batch.Events {
		key, at := string(event.Kv.Key), event.Kv.ModRevision
		if at < revision {
			return 0, fmt.Errorf("an event of revision %d after revision %d", at, revision)
		}
		old, known := copied[key]
		if event.IsCreate() == known || known && (event.PrevKv == nil || string(event.PrevKv.Value) != old) {
			return 0, fmt.Errorf("an event (%s) of %s at revision %d does not follow the copy: %q, %v", event.Type, key, at, old, event.PrevKv)
		}
		if event.Type == clientv3.EventTypeDelete {
			delete(copied, key)
		} else {
			copied[key] = string(event.Kv.Value)
		}
		revision = at
	}
	return revision, nil
}

// Compaction at a revision: reads and watches from before it are refused as etcd does.
func compacted(ctx context.Context, client *clientv3.Client, before, at int64) error {
	_, err := again(ctx, func(ctx context.Context) (*clientv3.CompactResponse, error) {
		answer, err := client.Compact(ctx, at)
		// A repeat of a compaction whose answer was lost.
		if errors.Is(err, rpctypes.ErrCompacted) {
			err = nil
		}
		return answer, err
	})
	if err != nil {
		return err
	}
	_, err = call(ctx, func(ctx context.Context) (*clientv3.GetResponse, error) {
		return client.Get(ctx, registry, clientv3.WithPrefix(), clientv3.WithRev(before))
	})
	if !errors.Is(err, rpctypes.ErrCompacted) {
		return fmt.Errorf("a read at revision %d, compacted at %d, is answered %v", before, at, err)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	batch := <-client.Watch(ctx, registry, clientv3.WithPrefix(), clientv3.WithRev(before))
	if batch.CompactRevision < at || !errors.Is(batch.Err(), rpctypes.ErrCompacted) {
		return fmt.Errorf("a watch from revision %d, compacted at %d, says %d: %v", before, at, batch.CompactRevision, batch.Err())
	}
	// The compacted revision itself can be watched: nothing else compacts here.
	batch = <-client.Watch(ctx, "", clientv3.WithPrefix(), clientv3.WithRev(at))
	if batch.Err() != nil || len(batch.Events) == 0 || batch.Events[0].Kv.ModRevision != at {
		return fmt.Errorf("a watch from the compacted revision %d says %v: %v", at, batch.Events, batch.Err())
	}
	return nil
}

// Creations, updates and deletions on condition: who loses gets the winner's object from the else branch.
func guarded(ctx context.Context) (string, error) {
	client := dial(2)
	defer client.Close()
	for attempt := 1; ; attempt++ {
		err := guardedOnce(ctx, client, fmt.Sprintf("/registry/leases/%d", attempt))
		// Under a kill a step may be done and not be answered: then the next object.
		if !errors.Is(err, errNoAnswer) || ctx.Err() != nil {
			return fmt.Sprintf("attempt %d", attempt), err
		}
	}
}

var errNoAnswer = errors.New("no answer")

func guardedOnce(ctx context.Context, client *clientv3.Client, key string) error {
	var failed error
	step := func(what string, succeeds bool, shown string) func(*clientv3.TxnResponse, error) int64 {
		return func(answer *clientv3.TxnResponse, err error) int64 {
			switch {
			case failed != nil:
				return 0
			case err != nil:
				failed = fmt.Errorf("%w to %s: %w", errNoAnswer, what, err)
				return 0
			case answer.Succeeded != succeeds:
				failed = fmt.Errorf("%s: succeeded is %t", what, answer.Succeeded)
				return 0
			case succeeds:
				// Kubernetes takes this one for the object's version.
				if put := answer.Responses[0].GetResponsePut(); put != nil {
					return put.Header.Revision
				}
				return answer.Header.Revision
			}
			kvs := answer.Responses[0].GetResponseRange().Kvs
			if len(kvs) != 1 || string(kvs[0].Value) != shown {
				failed = fmt.Errorf("%s: the else branch has %v, not %s", what, kvs, shown)
				return 0
			}
			return kvs[0].ModRevision
		}
	}
	made := step("create", true, "")(create(ctx, client, key, "a"))
	if seen := step("create again", false, "a")(create(ctx, client, key, "b")); failed == nil && seen != made {
		return fmt.Errorf("it was created at revision %d, and is of revision %d", made, seen)
	}
	updated := step("update", true, "")(update(ctx, client, key, "c", made))
	step("update of an old revision", false, "c")(update(ctx, client, key, "d", made))
	same := clientv3.Compare(clientv3.ModRevision(key), "=", updated)
	step("delete", true, "")(commit(ctx, client, []clientv3.Cmp{same}, []clientv3.Op{clientv3.OpDelete(key)}, nil))
	step("create after delete", true, "")(create(ctx, client, key, "e"))
	return failed
}
