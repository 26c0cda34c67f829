// Runs etcd's own tests/common against a world of Hive. scripts/doors.sh puts this file beside those tests, in the target directory.
//
//	NewCluster   the namespace "etcd" is deleted and made again, of one replica or of three, once every node is up
//	Members      the nodes with a replica; Stop is kill -9, Start waits until `hive dev` has started the node again
//
// Always: clients are etcd's own clientv3, unmodified, over plain gRPC. What a test asks of a cluster that Hive has not (a quota, TLS
// between members, an auth token) is left out, and the test fails where it needs that.
// Not here: which tests there are; how their results are judged (doors.py).

package common

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	etcdctl "go.etcd.io/etcd/etcdctl/v3/ctlv3/command"
	"go.etcd.io/etcd/tests/v3/framework/config"
	intf "go.etcd.io/etcd/tests/v3/framework/interfaces"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

const (
	namespace   = "etcd"
	dialTimeout = 5 * time.Second
	// Longer than a killed node of a debug build takes to come back.
	upTimeout   = 60 * time.Second
	callTimeout = 20 * time.Second
	pause       = 50 * time.Millisecond
)

func init() {
	testRunner = hiveRunner{}
	clusterTestCases = func() []testCase {
		return []testCase{
			{name: "OneReplica", config: config.ClusterConfig{ClusterSize: 1, StrictReconfigCheck: true}},
			{name: "ThreeReplicas", config: config.ClusterConfig{ClusterSize: 3, StrictReconfigCheck: true}},
		}
	}
}

// WithAuth gives a client a user.
func WithAuth(user, password string) config.ClientOption {
	return func(c any) {
		c.(*clientv3.Config).Username, c.(*clientv3.Config).Password = user, password
	}
}

// WithEndpoints gives a client other nodes.
func WithEndpoints(endpoints []string) config.ClientOption {
	return func(c any) { c.(*clientv3.Config).Endpoints = endpoints }
}

type node struct {
	ID   uint64 `json:"id"`
	HTTP string `json:"http"`
	Etcd string `json:"etcd"`
	PID  int    `json:"pid"`
}

// The nodes as `hive dev` knows them now: a node that was started again has another process.
func nodes() ([]node, error) {
	var ready struct {
		Nodes []node `json:"nodes"`
	}
	text, err := os.ReadFile(os.Getenv("HIVE_DOORS_READY"))
	if err != nil {
		return nil, err
	}
	return ready.Nodes, json.Unmarshal(text, &ready)
}

func (n node) up() bool {
	answer, err := (&http.Client{Timeout: 2 * time.Second}).Get(n.HTTP + "/ready")
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

func (n node) act(action string) (string, error) {
	answer, err := (&http.Client{Timeout: callTimeout}).Post(n.HTTP, "application/json", bytes.NewBufferString(action))
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return string(text), err
}

func eventually(until time.Duration, what string, holds func() error) error {
	end := time.Now().Add(until)
	for {
		err := holds()
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s: %w", what, err)
		}
		time.Sleep(pause)
	}
}

func allUp() (all []node, err error) {
	return all, eventually(upTimeout, "nodes are up", func() error {
		if all, err = nodes(); err != nil {
			return err
		}
		for _, n := range all {
			if !n.up() {
				return fmt.Errorf("node %d is not", n.ID)
			}
		}
		return nil
	})
}

type hiveRunner struct{}

func (hiveRunner) TestMain(m *testing.M) { os.Exit(m.Run()) }

func (hiveRunner) BeforeTest(testing.TB) {}

func (hiveRunner) NewCluster(ctx context.Context, t testing.TB, opts ...config.ClusterOption) intf.Cluster {
	size := config.NewClusterConfig(opts...).ClusterSize
	all, err := allUp()
	if err != nil {
		t.Fatal(err)
	}
	if err = remake(all, size); err != nil {
		t.Fatal(err)
	}
	members, err := replicas(all, size)
	if err != nil {
		t.Fatal(err)
	}
	return &hiveCluster{nodes: members}
}

// Deletes the namespace and makes it again, of so many replicas.
func remake(all []node, size int) error {
	drop := fmt.Sprintf(`{"action":"DeleteKeyspace","keyspace":%q}`, namespace)
	create := fmt.Sprintf(`{"action":"CreateKeyspace","keyspace":%q,"kind":"versioned",`+
		`"rule":"size=%d location=world failure_domain=chassis"}`, namespace, size)
	return eventually(upTimeout, "the namespace is made again", func() error {
		if answer, err := all[0].act(drop); err != nil || !strings.Contains(answer, `"ok":true`) && !strings.Contains(answer, "NoSuchKeyspace") {
			return fmt.Errorf("%s %w", answer, err)
		}
		if answer, err := all[0].act(create); err != nil || !strings.Contains(answer, `"ok":true`) {
			return fmt.Errorf("%s %w", answer, err)
		}
		return nil
	})
}

// The nodes with a replica of the namespace, once each node of the world answers for the new one.
func replicas(all []node, size int) (members []node, err error) {
	return members, eventually(upTimeout, "every node knows the namespace", func() error {
		members = nil
		for _, n := range all {
			client, err := dial([]string{n.Etcd})
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
			got, err := client.Get(ctx, "", clientv3.WithPrefix(), clientv3.WithCountOnly())
			if err == nil && got.Count != 0 {
				err = fmt.Errorf("node %d still has %d keys of the old one", n.ID, got.Count)
			}
			if err == nil {
				var list *clientv3.MemberListResponse
				// A node without a replica counts itself too.
				if list, err = client.MemberList(ctx); err == nil && len(list.Members) == size {
					members = append(members, n)
				}
			}
			cancel()
			client.Close()
			if err != nil {
				return err
			}
		}
		if len(members) != size {
			return fmt.Errorf("%d nodes have a replica, not %d", len(members), size)
		}
		return nil
	})
}

func dial(endpoints []string, opts ...config.ClientOption) (*clientv3.Client, error) {
	cfg := clientv3.Config{
		Endpoints:   endpoints,
		DialTimeout: dialTimeout,
		DialOptions: []grpc.DialOption{grpc.WithBlock()},
		Logger:      zap.NewNop(),
	}
	for _, opt := range opts {
		opt(&cfg)
	}
	return clientv3.New(cfg)
}

type hiveCluster struct{ nodes []node }

func (c *hiveCluster) Endpoints() (all []string) {
	for _, n := range c.nodes {
		all = append(all, n.Etcd)
	}
	return all
}

func (c *hiveCluster) Members() (all []intf.Member) {
	for _, n := range c.nodes {
		all = append(all, hiveMember{n})
	}
	return all
}

func (c *hiveCluster) Client(opts ...config.ClientOption) (intf.Client, error) {
	client, err := dial(c.Endpoints(), opts...)
	if err != nil {
		return nil, err
	}
	return hiveClient{client}, nil
}

// Close waits for nodes that a test stopped: tests count the time of NewCluster as their own.
func (c *hiveCluster) Close() error {
	_, err := allUp()
	return err
}

// WaitLeader asks the nodes that answer; the leader's place among the members.
func (c *hiveCluster) WaitLeader(t testing.TB) (leader int) {
	err := eventually(upTimeout, "there is a leader", func() error {
		for _, n := range c.nodes {
			client, err := dial([]string{n.Etcd})
			if err != nil {
				continue
			}
			ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
			status, err := client.Status(ctx, n.Etcd)
			cancel()
			client.Close()
			if err != nil {
				continue
			}
			for place, other := range c.nodes {
				if other.ID == status.Leader && other.up() {
					leader = place
					return nil
				}
			}
		}
		return fmt.Errorf("no node says who leads")
	})
	if err != nil {
		t.Fatal(err)
	}
	return leader
}

type hiveMember struct{ node }

func (m hiveMember) Client() intf.Client {
	client, err := dial([]string{m.Etcd})
	if err != nil {
		panic(err)
	}
	return hiveClient{client}
}

func (m hiveMember) process() (int, error) {
	all, err := nodes()
	for _, n := range all {
		if n.ID == m.ID {
			return n.PID, nil
		}
	}
	return 0, err
}

func (m hiveMember) Stop() {
	if process, err := m.process(); err == nil && process > 1 {
		_ = syscall.Kill(process, syscall.SIGKILL)
	}
}

func (m hiveMember) Start(context.Context) error {
	return eventually(upTimeout, "the node is up again", func() error {
		if !m.up() {
			return fmt.Errorf("node %d is not", m.ID)
		}
		return nil
	})
}

// hiveClient answers framework's interface by clientv3. What the two have alike comes from the embedded client.
type hiveClient struct{ *clientv3.Client }

func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, limit)
}

func span(prefix, fromKey bool, end string) (opts []clientv3.OpOption) {
	if prefix {
		opts = append(opts, clientv3.WithPrefix())
	}
	if fromKey {
		opts = append(opts, clientv3.WithFromKey())
	}
	if end != "" {
		opts = append(opts, clientv3.WithRange(end))
	}
	return opts
}

func (c hiveClient) Put(ctx context.Context, key, value string, o config.PutOptions) error {
	ctx, cancel := within(ctx, o.Timeout)
	defer cancel()
	_, err := c.Client.Put(ctx, key, value, clientv3.WithLease(o.LeaseID))
	return err
}

func (c hiveClient) Get(ctx context.Context, key string, o config.GetOptions) (*clientv3.GetResponse, error) {
	ctx, cancel := within(ctx, o.Timeout)
	defer cancel()
	opts := append(span(o.Prefix, o.FromKey, o.End), clientv3.WithRev(int64(o.Revision)), clientv3.WithLimit(int64(o.Limit)))
	if o.SortBy != clientv3.SortByKey || o.Order != clientv3.SortNone {
		opts = append(opts, clientv3.WithSort(o.SortBy, o.Order))
	}
	if o.Serializable {
		opts = append(opts, clientv3.WithSerializable())
	}
	if o.CountOnly {
		opts = append(opts, clientv3.WithCountOnly())
	}
	return c.Client.Get(ctx, key, opts...)
}

func (c hiveClient) Delete(ctx context.Context, key string, o config.DeleteOptions) (*clientv3.DeleteResponse, error) {
	return c.Client.Delete(ctx, key, span(o.Prefix, o.FromKey, o.End)...)
}

func (c hiveClient) Compact(ctx context.Context, rev int64, o config.CompactOption) (*clientv3.CompactResponse, error) {
	ctx, cancel := within(ctx, o.Timeout)
	defer cancel()
	var opts []clientv3.CompactOption
	if o.Physical {
		opts = append(opts, clientv3.WithCompactPhysical())
	}
	return c.Client.Compact(ctx, rev, opts...)
}

// A call at each endpoint.
func each[T any](c hiveClient, call func(endpoint string) (*T, error)) (all []*T, err error) {
	for _, endpoint := range c.Endpoints() {
		answer, err := call(endpoint)
		if err != nil {
			return nil, err
		}
		all = append(all, answer)
	}
	return all, nil
}

func (c hiveClient) Status(ctx context.Context) ([]*clientv3.StatusResponse, error) {
	return each(c, func(endpoint string) (*clientv3.StatusResponse, error) { return c.Client.Status(ctx, endpoint) })
}

func (c hiveClient) HashKV(ctx context.Context, rev int64) ([]*clientv3.HashKVResponse, error) {
	return each(c, func(endpoint string) (*clientv3.HashKVResponse, error) { return c.Client.HashKV(ctx, endpoint, rev) })
}

func (c hiveClient) Defragment(ctx context.Context, o config.DefragOption) error {
	ctx, cancel := within(ctx, o.Timeout)
	defer cancel()
	_, err := each(c, func(endpoint string) (*clientv3.DefragmentResponse, error) { return c.Client.Defragment(ctx, endpoint) })
	return err
}

func (c hiveClient) Health(ctx context.Context) error {
	answer, err := healthpb.NewHealthClient(c.ActiveConnection()).Check(ctx, &healthpb.HealthCheckRequest{})
	if err == nil && answer.Status != healthpb.HealthCheckResponse_SERVING {
		err = fmt.Errorf("the health service answers %s", answer.Status)
	}
	return err
}

func (c hiveClient) TimeToLive(ctx context.Context, id clientv3.LeaseID, o config.LeaseOption) (*clientv3.LeaseTimeToLiveResponse, error) {
	if o.WithAttachedKeys {
		return c.Client.TimeToLive(ctx, id, clientv3.WithAttachedKeys())
	}
	return c.Client.TimeToLive(ctx, id)
}

func (c hiveClient) AuthEnable(ctx context.Context) error {
	_, err := c.Client.AuthEnable(ctx)
	return err
}

func (c hiveClient) AuthDisable(ctx context.Context) error {
	_, err := c.Client.AuthDisable(ctx)
	return err
}

func (c hiveClient) UserAdd(ctx context.Context, name, password string, o config.UserAddOptions) (*clientv3.AuthUserAddResponse, error) {
	return c.UserAddWithOptions(ctx, name, password, &clientv3.UserAddOptions{NoPassword: o.NoPassword})
}

func (c hiveClient) UserChangePass(ctx context.Context, user, password string) error {
	_, err := c.UserChangePassword(ctx, user, password)
	return err
}

// The operations of a transaction, written as etcdctl takes them.
func operations(lines []string) (all []clientv3.Op) {
	for _, line := range lines {
		switch words := etcdctl.Argify(strings.TrimSpace(line)); words[0] {
		case "get":
			all = append(all, clientv3.OpGet(words[1]))
		case "put":
			all = append(all, clientv3.OpPut(words[1], words[2]))
		case "del":
			all = append(all, clientv3.OpDelete(words[1]))
		}
	}
	return all
}

func (c hiveClient) Txn(ctx context.Context, compares, then, otherwise []string, _ config.TxnOptions) (*clientv3.TxnResponse, error) {
	var conditions []clientv3.Cmp
	for _, line := range compares {
		condition, err := etcdctl.ParseCompare(line)
		if err != nil {
			return nil, err
		}
		conditions = append(conditions, *condition)
	}
	return c.Client.Txn(ctx).If(conditions...).Then(operations(then)...).Else(operations(otherwise)...).Commit()
}

func (c hiveClient) Watch(ctx context.Context, key string, o config.WatchOptions) clientv3.WatchChan {
	return c.Client.Watch(ctx, key, append(span(o.Prefix, false, o.RangeEnd), clientv3.WithRev(o.Revision))...)
}

func (c hiveClient) MemberList(ctx context.Context, serializable bool) (*clientv3.MemberListResponse, error) {
	if serializable {
		return c.Client.MemberList(ctx, clientv3.WithSerializable())
	}
	return c.Client.MemberList(ctx)
}

func (c hiveClient) MemberAdd(ctx context.Context, _ string, peers []string) (*clientv3.MemberAddResponse, error) {
	return c.Client.MemberAdd(ctx, peers)
}

func (c hiveClient) MemberAddAsLearner(ctx context.Context, _ string, peers []string) (*clientv3.MemberAddResponse, error) {
	return c.Client.MemberAddAsLearner(ctx, peers)
}
