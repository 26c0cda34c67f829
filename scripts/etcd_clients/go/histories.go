// Histories under a kill: a counter, plain puts, a watch, leases, a mutex, an election.

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

const (
	writers       = 4
	sessionTTLs   = 8
	orphanTTLs    = 2
	leaseEndsMax  = 25 * time.Second
	watchDrainMax = 20 * time.Second
)

// Runs as many clients as there are writers, each at another node first, until the time is over.
func each(work func(writer int, client *clientv3.Client) error) error {
	var all sync.WaitGroup
	errs := make([]error, writers)
	for writer := range writers {
		all.Go(func() {
			client := dial(writer)
			defer client.Close()
			for end := time.Now().Add(underKill); time.Now().Before(end) && errs[writer] == nil; {
				errs[writer] = work(writer, client)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// Clients at different nodes count a number up by compare-and-swap, each addition with a mark of its own in the same transaction. What was
// acknowledged counts once; what has an unknown outcome counts once or not at all, and the marks show which.
func counter(ctx context.Context) (string, error) {
	var acknowledged, unknown, marked atomic.Int64
	err := each(func(writer int, client *clientv3.Client) error {
		got, err := get(ctx, client, "counter")
		if err != nil {
			return err
		}
		var value, seen int64
		if len(got.Kvs) == 1 {
			value, _ = strconv.ParseInt(string(got.Kvs[0].Value), 10, 64)
			seen = got.Kvs[0].ModRevision
		}
		mark := fmt.Sprintf("counter/mark/%d/%d", writer, marked.Add(1))
		put := []clientv3.Op{clientv3.OpPut("counter", strconv.FormatInt(value+1, 10)), clientv3.OpPut(mark, "")}
		done, err := commit(ctx, client, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision("counter"), "=", seen)}, put, nil)
		switch {
		case err != nil:
			unknown.Add(1)
		case done.Succeeded:
			acknowledged.Add(1)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	client := dial(1)
	defer client.Close()
	got, err := get(ctx, client, "counter")
	if err != nil {
		return "", err
	}
	marks, err := get(ctx, client, "counter/mark/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return "", err
	}
	value, _ := strconv.ParseInt(string(got.Kvs[0].Value), 10, 64)
	sure, most := acknowledged.Load(), acknowledged.Load()+unknown.Load()
	if value != marks.Count || value != got.Kvs[0].Version || value < sure || value > most || sure == 0 {
		return wrong("the number is %d, version %d, with %d marks; %d additions were acknowledged, at most %d done",
			value, got.Kvs[0].Version, marks.Count, sure, most)
	}
	return fmt.Sprintf("%d additions, %d of unknown outcome", sure, unknown.Load()), nil
}

// Each writer puts rising numbers under a key of its own: the last that was acknowledged, or a later one, is there, through every node.
func puts(ctx context.Context) (string, error) {
	var acknowledged [writers]int
	var tried [writers]int
	err := each(func(writer int, client *clientv3.Client) error {
		tried[writer]++
		value := strconv.Itoa(tried[writer])
		_, err := call(ctx, func(ctx context.Context) (*clientv3.PutResponse, error) {
			return client.Put(ctx, "puts/"+strconv.Itoa(writer), value)
		})
		if err == nil {
			acknowledged[writer] = tried[writer]
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	total := 0
	for node := range endpoints {
		client := dial(node)
		defer client.Close()
		for writer := range writers {
			got, err := get(ctx, client, "puts/"+strconv.Itoa(writer))
			if err != nil {
				return "", err
			}
			value, _ := strconv.Atoi(string(got.Kvs[0].Value))
			if value < acknowledged[writer] || value > tried[writer] || acknowledged[writer] == 0 {
				return wrong("writer %d reads %d; %d was acknowledged", writer, value, acknowledged[writer])
			}
			total += acknowledged[writer]
		}
	}
	return fmt.Sprintf("%d puts", total/len(endpoints)), nil
}

// A watcher sees what was written, while the node that serves it may be killed: the client resumes by itself.
func watchResumes(ctx context.Context) (string, error) {
	const prefix = "watched/"
	client := dial(0)
	defer client.Close()
	began, err := get(ctx, client, prefix)
	if err != nil {
		return "", err
	}
	var one sync.Mutex
	acknowledged := map[string]int64{}
	var tried atomic.Int64
	done := make(chan error, 1)
	go func() {
		done <- each(func(writer int, client *clientv3.Client) error {
			key := fmt.Sprintf("%s%d/%d", prefix, writer, tried.Add(1))
			answer, err := call(ctx, func(ctx context.Context) (*clientv3.PutResponse, error) { return client.Put(ctx, key, key) })
			if err == nil {
				one.Lock()
				acknowledged[key] = answer.Header.Revision
				one.Unlock()
			}
			return nil
		})
	}()
	seen, err := observe(ctx, client, prefix, began.Header.Revision+1, done)
	if err != nil {
		return "", err
	}
	for key, revision := range acknowledged {
		if seen[key] != revision {
			return wrong("%s was acknowledged at revision %d; its event says %d (0: there was none)", key, revision, seen[key])
		}
	}
	if len(acknowledged) == 0 {
		return wrong("no put was acknowledged")
	}
	return fmt.Sprintf("%d events of %d puts", len(seen), len(acknowledged)), nil
}

// The events of a prefix by key, until a last put of its own comes after `done`. Revisions rise, and no key comes twice.
func observe(ctx context.Context, client *clientv3.Client, prefix string, from int64, done chan error) (map[string]int64, error) {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	seen, last, end := map[string]int64{}, from-1, prefix+"end"
	events := client.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(from))
	for {
		select {
		case err := <-done:
			if err != nil {
				return nil, err
			}
			done = nil
			if _, err := again(ctx, func(ctx context.Context) (*clientv3.PutResponse, error) { return client.Put(ctx, end, "") }); err != nil {
				return nil, err
			}
			time.AfterFunc(watchDrainMax, cancel)
		case batch, open := <-events:
			switch {
			case !open:
				return nil, fmt.Errorf("the watch ended after %d events at revision %d", len(seen), last)
			case isNoLeader(batch.Err()):
				events = client.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(last+1))
				continue
			case batch.Err() != nil:
				return nil, batch.Err()
			}
			for _, event := range batch.Events {
				key := string(event.Kv.Key)
				if key == end {
					return seen, nil
				}
				if event.Kv.ModRevision < last || seen[key] != 0 || event.Type != mvccpb.PUT {
					return nil, fmt.Errorf("%s came at revision %d after revision %d, or twice", key, event.Kv.ModRevision, last)
				}
				seen[key], last = event.Kv.ModRevision, event.Kv.ModRevision
			}
		}
	}
}

// A server that loses its leader ends the watches that want one; clients begin again where they were.
func isNoLeader(err error) bool { return err != nil && err.Error() == "etcdserver: no leader" }

// Under the mutex a number is read and written without a condition: it loses nothing if one client at a time holds it. A client whose
// session ended begins with a new one.
func mutex(ctx context.Context) (string, error) {
	var acknowledged, unknown, lost, refused atomic.Int64
	sessions := make([]*concurrency.Session, writers)
	err := each(func(writer int, client *clientv3.Client) error {
		session := sessions[writer]
		if session == nil {
			made, err := concurrency.NewSession(client, concurrency.WithTTL(sessionTTLs), concurrency.WithContext(ctx))
			if err != nil {
				return nil
			}
			session, sessions[writer] = made, made
		}
		select {
		case <-session.Done():
			sessions[writer] = nil
			lost.Add(1)
			return nil
		default:
		}
		lock := concurrency.NewMutex(session, "mutex/")
		if _, err := call(ctx, func(ctx context.Context) (int, error) { return 0, lock.Lock(ctx) }); err != nil {
			return nil
		}
		defer again(ctx, func(ctx context.Context) (int, error) { return 0, lock.Unlock(ctx) })
		got, err := get(ctx, client, "mutex-number")
		if err != nil {
			return err
		}
		value := 0
		if len(got.Kvs) == 1 {
			value, _ = strconv.Atoi(string(got.Kvs[0].Value))
		}
		// Only the owner of the lock may write, and only while its lease lives.
		done, err := commit(ctx, client, []clientv3.Cmp{lock.IsOwner()}, []clientv3.Op{clientv3.OpPut("mutex-number", strconv.Itoa(value+1))}, nil)
		switch {
		case err != nil:
			unknown.Add(1)
		case done.Succeeded:
			acknowledged.Add(1)
		default:
			refused.Add(1)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	client := dial(2)
	defer client.Close()
	got, err := get(ctx, client, "mutex-number")
	if err != nil {
		return "", err
	}
	if len(got.Kvs) == 0 {
		return wrong("nobody held the mutex")
	}
	value, _ := strconv.ParseInt(string(got.Kvs[0].Value), 10, 64)
	if sure := acknowledged.Load(); value < sure || value > sure+unknown.Load() || sure == 0 {
		return wrong("the number is %d; %d additions were acknowledged, %d unknown", value, sure, unknown.Load())
	}
	if lost.Load()+refused.Load() != 0 {
		return wrong("%d sessions of %d s ended while they were kept alive; %d holders were none", lost.Load(), sessionTTLs, refused.Load())
	}
	return fmt.Sprintf("%d additions under the mutex, %d of unknown outcome, no session lost", acknowledged.Load(), unknown.Load()), nil
}

// Candidates lead for a moment and resign. What a leader writes on condition that it leads never comes after what a later one wrote.
func election(ctx context.Context) (string, error) {
	var led atomic.Int64
	sessions := make([]*concurrency.Session, writers)
	err := each(func(writer int, client *clientv3.Client) error {
		if sessions[writer] == nil {
			made, err := concurrency.NewSession(client, concurrency.WithTTL(sessionTTLs), concurrency.WithContext(ctx))
			if err != nil {
				return nil
			}
			sessions[writer] = made
		}
		candidate := concurrency.NewElection(sessions[writer], "election/")
		name := strconv.Itoa(writer)
		if _, err := call(ctx, func(ctx context.Context) (int, error) { return 0, candidate.Campaign(ctx, name) }); err != nil {
			_, _ = again(ctx, func(ctx context.Context) (int, error) { return 0, candidate.Resign(ctx) })
			return nil
		}
		leader, err := call(ctx, candidate.Leader)
		if err == nil && string(leader.Kvs[0].Value) != name && leader.Kvs[0].CreateRevision < candidate.Rev() {
			return fmt.Errorf("%s leads since revision %d; %s leads since %d at the same time",
				name, candidate.Rev(), leader.Kvs[0].Value, leader.Kvs[0].CreateRevision)
		}
		leads := clientv3.Compare(clientv3.CreateRevision(candidate.Key()), "=", candidate.Rev())
		done, err := commit(ctx, client, []clientv3.Cmp{leads}, []clientv3.Op{clientv3.OpPut("election-term", strconv.FormatInt(candidate.Rev(), 10))}, nil)
		if err == nil && !done.Succeeded {
			return fmt.Errorf("%s was elected at revision %d, which is not that of its key", name, candidate.Rev())
		}
		if err == nil {
			led.Add(1)
		}
		_, _ = again(ctx, func(ctx context.Context) (int, error) { return 0, candidate.Resign(ctx) })
		return nil
	})
	if err != nil {
		return "", err
	}
	if led.Load() == 0 {
		return wrong("nobody led")
	}
	return rising(ctx, "election-term", fmt.Sprintf("%d terms", led.Load()))
}

// The values of a key rise from revision to revision, back to the first that is not compacted.
func rising(ctx context.Context, key, note string) (string, error) {
	client := dial(0)
	defer client.Close()
	got, err := get(ctx, client, key)
	if err != nil {
		return "", err
	}
	for at, later := got.Kvs[0].ModRevision, string(got.Kvs[0].Value); at > 0; {
		old, err := again(ctx, func(ctx context.Context) (*clientv3.GetResponse, error) {
			old, err := client.Get(ctx, key, clientv3.WithRev(at-1))
			// The apiserver's case compacts meanwhile.
			if errors.Is(err, rpctypes.ErrCompacted) {
				return &clientv3.GetResponse{}, nil
			}
			return old, err
		})
		if err != nil || len(old.Kvs) == 0 {
			return note, err
		}
		before, _ := strconv.Atoi(string(old.Kvs[0].Value))
		after, _ := strconv.Atoi(later)
		if before > after {
			return wrong("%s was %d after it was %d", key, after, before)
		}
		at, later = old.Kvs[0].ModRevision, string(old.Kvs[0].Value)
	}
	return note, nil
}

// A lease without a client ends after its time and not before, and its keys with it at once, deleted once.
func leaseEnds(ctx context.Context) (string, error) {
	client := dial(1)
	defer client.Close()
	lease, err := again(ctx, func(ctx context.Context) (*clientv3.LeaseGrantResponse, error) { return client.Grant(ctx, orphanTTLs) })
	if err != nil {
		return "", err
	}
	granted := time.Now()
	var from int64
	for i := range 3 {
		key := fmt.Sprintf("leased/%d", i)
		put, err := again(ctx, func(ctx context.Context) (*clientv3.PutResponse, error) {
			return client.Put(ctx, key, "", clientv3.WithLease(lease.ID))
		})
		if err != nil {
			return "", err
		}
		from = put.Header.Revision + 1
	}
	ctx, cancel := context.WithTimeout(ctx, leaseEndsMax)
	defer cancel()
	deleted := map[string]int64{}
	for batch := range client.Watch(ctx, "leased/", clientv3.WithPrefix(), clientv3.WithRev(from)) {
		if batch.Err() != nil {
			return "", batch.Err()
		}
		for _, event := range batch.Events {
			if event.Type != mvccpb.DELETE || deleted[string(event.Kv.Key)] != 0 {
				return wrong("an event of type %s for %s, which is not its one deletion", event.Type, event.Kv.Key)
			}
			deleted[string(event.Kv.Key)] = event.Kv.ModRevision
		}
		if len(deleted) == 3 {
			lived := time.Since(granted)
			if lived < orphanTTLs*time.Second-500*time.Millisecond {
				return wrong("a lease of %d s ended after %s", orphanTTLs, lived)
			}
			return fmt.Sprintf("a lease of %d s ended after %.1f s", orphanTTLs, lived.Seconds()), nil
		}
	}
	return wrong("of 3 keys %d were deleted within %s", len(deleted), leaseEndsMax)
}
