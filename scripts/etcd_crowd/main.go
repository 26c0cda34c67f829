// Command crowd measures what thousands of watches cost the puts beside them, half of the watches stalled: their clients take nothing. It
// speaks etcd's gRPC API by etcd's own messages, to Hive or to etcd.
//
//	crowd [-watches 10000] [-streams 100] [-puts 600] [-rate 30] -pids PID,PID,… ENDPOINT,ENDPOINT,…
//
//	puts alone ─▶ memory ─▶ watches begin, half are stalled ─▶ the same puts ─▶ memory ─▶ every watch is counted, stalled ones last
//
// Always: each watch that takes must have got each put once and in order, or the command fails; then the stalled ones take, and must get
// the same. Puts come at a fixed rate, so the two runs compare. Prints one line of JSON.
// Not here: starting servers (`hive bench etcd-door`).
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	key        = "crowd"
	valueBytes = 256
	putters    = 8
	callTime   = 10 * time.Second
	// Until every watch has everything.
	drainTime = 120 * time.Second
	// Watches of a stalled connection fill its window; what more comes waits in the server.
	window = 64 << 10
)

type figures struct {
	Watches        int     `json:"watches"`
	Stalled        int     `json:"stalled"`
	Puts           int     `json:"puts"`
	AloneP50       float64 `json:"alone_p50_ms"`
	AloneP99       float64 `json:"alone_p99_ms"`
	BesideP50      float64 `json:"beside_p50_ms"`
	BesideP99      float64 `json:"beside_p99_ms"`
	MemoryBefore   int     `json:"memory_before_kib"`
	MemoryWatches  int     `json:"memory_with_watches_kib"`
	MemoryAfter    int     `json:"memory_after_puts_kib"`
	DrainedSeconds float64 `json:"last_taker_had_all_after_s"`
	StalledSeconds float64 `json:"stalled_had_all_after_s"`
}

// A stream of watches: how far each has come.
type stream struct {
	client pb.Watch_WatchClient
	seen   []int
	last   []int64
}

func dial(endpoint string) (*grpc.ClientConn, error) {
	return grpc.NewClient(strings.TrimPrefix(endpoint, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(window))
}

// Begins a stream of so many watches of the key, from now on.
func begin(endpoint string, watches int) (*stream, error) {
	connection, err := dial(endpoint)
	if err != nil {
		return nil, err
	}
	client, err := pb.NewWatchClient(connection).Watch(context.Background())
	if err != nil {
		return nil, err
	}
	for range watches {
		create := &pb.WatchCreateRequest{Key: []byte(key)}
		if err := client.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: create}}); err != nil {
			return nil, err
		}
	}
	for range watches {
		answer, err := client.Recv()
		if err != nil {
			return nil, err
		}
		if !answer.Created || answer.Canceled {
			return nil, fmt.Errorf("a watch was not made: %s", answer.CancelReason)
		}
	}
	return &stream{client: client, seen: make([]int, watches), last: make([]int64, watches)}, nil
}

// Takes until every watch has so many events; each must come once and in order.
func (s *stream) take(puts int) error {
	for missing := puts * len(s.seen); missing > 0; {
		answer, err := s.client.Recv()
		if err != nil {
			return err
		}
		if answer.Canceled {
			return fmt.Errorf("watch %d was cancelled: %s", answer.WatchId, answer.CancelReason)
		}
		if answer.WatchId < 0 || answer.WatchId >= int64(len(s.seen)) {
			return fmt.Errorf("there is no watch %d", answer.WatchId)
		}
		for _, event := range answer.Events {
			if event.Kv.ModRevision <= s.last[answer.WatchId] {
				return fmt.Errorf("watch %d got revision %d after %d", answer.WatchId, event.Kv.ModRevision, s.last[answer.WatchId])
			}
			s.last[answer.WatchId] = event.Kv.ModRevision
			s.seen[answer.WatchId]++
			missing--
		}
	}
	return nil
}

// Puts at a fixed rate over all endpoints; the latencies in ms, sorted. A put that is late does not delay those after it.
func put(endpoints []string, puts int, rate float64) ([]float64, error) {
	due := make(chan time.Time, puts)
	go func() {
		began := time.Now()
		for number := range puts {
			at := began.Add(time.Duration(float64(number) / rate * float64(time.Second)))
			time.Sleep(time.Until(at))
			due <- at
		}
		close(due)
	}()
	var (
		lock  sync.Mutex
		all   sync.WaitGroup
		took  []float64
		wrong error
	)
	value := []byte(strings.Repeat("v", valueBytes))
	for number := range putters {
		connection, err := dial(endpoints[number%len(endpoints)])
		if err != nil {
			return nil, err
		}
		defer connection.Close()
		client := pb.NewKVClient(connection)
		all.Go(func() {
			for at := range due {
				ctx, cancel := context.WithTimeout(context.Background(), callTime)
				_, err := client.Put(ctx, &pb.PutRequest{Key: []byte(key), Value: value})
				cancel()
				lock.Lock()
				if took = append(took, float64(time.Since(at).Microseconds())/1e3); err != nil {
					wrong = err
				}
				lock.Unlock()
			}
		})
	}
	all.Wait()
	sort.Float64s(took)
	return took, wrong
}

func percentile(sorted []float64, of float64) float64 {
	return sorted[min(len(sorted)-1, int(of*float64(len(sorted))))]
}

// Resident memory of the servers.
func memory(pids []string) (total int) {
	for _, pid := range pids {
		text, _ := os.ReadFile("/proc/" + pid + "/status")
		for _, line := range strings.Split(string(text), "\n") {
			var kib int
			if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &kib); err == nil {
				total += kib
			}
		}
	}
	return total
}

// Takes everything of all these streams; how long the last needed.
func drain(streams []*stream, puts int) (float64, error) {
	began, failed := time.Now(), make(chan error, len(streams))
	for _, one := range streams {
		go func() { failed <- one.take(puts) }()
	}
	until := time.After(drainTime)
	for range streams {
		select {
		case err := <-failed:
			if err != nil {
				return 0, err
			}
		case <-until:
			return 0, fmt.Errorf("a watch has not got all %d puts after %s", puts, drainTime)
		}
	}
	return time.Since(began).Seconds(), nil
}

func run(endpoints, pids []string, watches, streams, puts int, rate float64) (told figures, err error) {
	told = figures{Watches: watches, Stalled: watches / 2, Puts: puts}
	alone, err := put(endpoints, puts, rate)
	if err != nil {
		return told, fmt.Errorf("a put without watches failed: %w", err)
	}
	told.AloneP50, told.AloneP99, told.MemoryBefore = percentile(alone, 0.5), percentile(alone, 0.99), memory(pids)
	var takers, stalled []*stream
	for number := range streams {
		// Both kinds go to all endpoints.
		one, err := begin(endpoints[number/2%len(endpoints)], watches/streams)
		if err != nil {
			return told, err
		}
		if number%2 == 0 {
			takers = append(takers, one)
		} else {
			stalled = append(stalled, one)
		}
	}
	told.MemoryWatches = memory(pids)
	type ended struct {
		seconds float64
		err     error
	}
	taken, began := make(chan ended, 1), time.Now()
	go func() {
		seconds, err := drain(takers, puts)
		taken <- ended{seconds, err}
	}()
	beside, err := put(endpoints, puts, rate)
	if err != nil {
		return told, fmt.Errorf("a put beside watches failed: %w", err)
	}
	lasted := time.Since(began).Seconds()
	told.BesideP50, told.BesideP99, told.MemoryAfter = percentile(beside, 0.5), percentile(beside, 0.99), memory(pids)
	all := <-taken
	if all.err != nil {
		return told, fmt.Errorf("of the watches that take: %w", all.err)
	}
	told.DrainedSeconds = max(0, all.seconds-lasted)
	if told.StalledSeconds, err = drain(stalled, puts); err != nil {
		return told, fmt.Errorf("of the watches that were stalled: %w", err)
	}
	return told, nil
}

func main() {
	watches, streams := flag.Int("watches", 10_000, "in all; half are stalled"), flag.Int("streams", 100, "a connection each")
	puts, rate := flag.Int("puts", 600, "each time"), flag.Float64("rate", 30, "puts a second")
	pids := flag.String("pids", "", "of the servers, for their memory")
	flag.Parse()
	if flag.NArg() != 1 || *streams < 2 || *watches < *streams || *puts < 1 || *rate <= 0 {
		fmt.Fprintln(os.Stderr, "usage: crowd [-watches N] [-streams N] [-puts N] [-rate N] [-pids PID,…] ENDPOINT,…; at least 2 streams, and a watch in each")
		os.Exit(2)
	}
	told, err := run(strings.Split(flag.Arg(0), ","), strings.Split(*pids, ","), *watches, *streams, *puts, *rate)
	if err != nil {
		fmt.Fprintln(os.Stderr, "crowd:", err)
		os.Exit(1)
	}
	line, _ := json.Marshal(told)
	fmt.Println(string(line))
}
