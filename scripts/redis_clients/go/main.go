// Cases of go-redis, unmodified, at a world of Hive: client ADDRESSES (host:port,…), each address another node's door. While the counting case
// runs, the caller kills the leader: an increment whose outcome a client does not know may count, one that was answered must.
//
// Writes one JSON line for each case: {"case", "ok", "note"}; {"begun": true} when the counting begins.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	counted     = 14 * time.Second
	callTimeout = 15 * time.Second
)

var background = context.Background()

func tell(name string, err error, note string) bool {
	if err != nil {
		note = err.Error()
	}
	line, _ := json.Marshal(map[string]any{"case": name, "ok": err == nil, "note": note})
	fmt.Println(string(line))
	return err == nil
}

func same(got, wanted any) error {
	if fmt.Sprint(got) != fmt.Sprint(wanted) {
		return fmt.Errorf("got %v, wanted %v", got, wanted)
	}
	return nil
}

func clientOf(address string, retries int) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: address, MaxRetries: retries, ReadTimeout: callTimeout, WriteTimeout: callTimeout})
}

func types(nodes []*redis.Client) error {
	one, two := nodes[0], nodes[1%len(nodes)]
	if err := one.Set(background, "go:s", "v", time.Minute).Err(); err != nil {
		return err
	}
	if got, err := two.Get(background, "go:s").Result(); err != nil || got != "v" {
		return fmt.Errorf("GET: %v %v", got, err)
	}
	if left := two.TTL(background, "go:s").Val(); left <= 0 || left > time.Minute {
		return fmt.Errorf("TTL: %v", left)
	}
	if err := one.HSet(background, "go:h", "a", 1, "b", 2).Err(); err != nil {
		return err
	}
	if err := same(two.HGetAll(background, "go:h").Val(), map[string]string{"a": "1", "b": "2"}); err != nil {
		return err
	}
	if err := one.ZAdd(background, "go:z", redis.Z{Score: 2, Member: "b"}, redis.Z{Score: 1, Member: "a"}).Err(); err != nil {
		return err
	}
	if err := same(two.ZRangeWithScores(background, "go:z", 0, -1).Val(), []redis.Z{{Score: 1, Member: "a"}, {Score: 2, Member: "b"}}); err != nil {
		return err
	}
	id, err := one.XAdd(background, &redis.XAddArgs{Stream: "go:x", Values: []string{"f", "v"}}).Result()
	if err != nil {
		return err
	}
	if err := two.XGroupCreate(background, "go:x", "g", "0").Err(); err != nil {
		return err
	}
	read, err := one.XReadGroup(background, &redis.XReadGroupArgs{Group: "g", Consumer: "c", Streams: []string{"go:x", ">"}}).Result()
	if err != nil || len(read) != 1 || read[0].Messages[0].ID != id {
		return fmt.Errorf("XREADGROUP: %v %v", read, err)
	}
	return same(two.XAck(background, "go:x", "g", id).Val(), 1)
}

func pipelines(nodes []*redis.Client) error {
	pipe := nodes[1%len(nodes)].Pipeline()
	for i := 0; i < 500; i++ {
		pipe.Incr(background, "go:pipe")
	}
	results, err := pipe.Exec(background)
	if err != nil {
		return err
	}
	for i, result := range results {
		if err := same(result.(*redis.IntCmd).Val(), i+1); err != nil {
			return err
		}
	}
	return nil
}

// Three clients at three nodes swap one key by WATCH, MULTI, EXEC: none is lost.
func swaps(nodes []*redis.Client) error {
	const each = 20
	var group sync.WaitGroup
	failed := make(chan error, len(nodes))
	for _, client := range nodes {
		group.Add(1)
		go func() {
			defer group.Done()
			for done := 0; done < each; {
				err := client.Watch(background, func(tx *redis.Tx) error {
					number, err := tx.Get(background, "go:swap").Int()
					if err != nil && !errors.Is(err, redis.Nil) {
						return err
					}
					_, err = tx.TxPipelined(background, func(pipe redis.Pipeliner) error {
						return pipe.Set(background, "go:swap", number+1, 0).Err()
					})
					return err
				}, "go:swap")
				switch {
				case err == nil:
					done++
				case errors.Is(err, redis.TxFailedErr):
				default:
					failed <- err
					return
				}
			}
		}()
	}
	group.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return same(nodes[0].Get(background, "go:swap").Val(), each*len(nodes))
	}
}

func subscriptions(nodes []*redis.Client) error {
	subscriber := nodes[0].Subscribe(background, "go:channel")
	defer subscriber.Close()
	if _, err := subscriber.Receive(background); err != nil {
		return err
	}
	if err := nodes[1%len(nodes)].Publish(background, "go:channel", "hello").Err(); err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(background, callTimeout)
	defer cancel()
	message, err := subscriber.ReceiveMessage(wait)
	if err != nil {
		return err
	}
	return same(message.Payload, "hello")
}

func scripts(nodes []*redis.Client) error {
	script := redis.NewScript(`local v = redis.call("INCRBY", KEYS[1], ARGV[1]); return {v, KEYS[1]}`)
	for i, client := range nodes {
		got, err := script.Run(background, client, []string{"go:script"}, 5).Result()
		if err != nil {
			return err
		}
		if err := same(got, []any{int64(5 * (i + 1)), "go:script"}); err != nil {
			return err
		}
	}
	return nil
}

// Increments through every node while the leader is killed. Answered ones are in the sum; those without an answer may be.
func counting(addresses []string) (string, error) {
	fmt.Println(`{"begun":true}`)
	var group sync.WaitGroup
	var mutex sync.Mutex
	answered, unknown, last := 0, 0, time.Time{}
	until := time.Now().Add(counted)
	for _, address := range addresses {
		for worker := 0; worker < 2; worker++ {
			group.Add(1)
			go func() {
				defer group.Done()
				// Not repeated by the client: what was answered is counted here.
				client := clientOf(address, -1)
				defer client.Close()
				for time.Now().Before(until) {
					err := client.Incr(background, "go:count").Err()
					mutex.Lock()
					if err == nil {
						answered++
						last = time.Now()
					} else {
						unknown++
					}
					mutex.Unlock()
					if err != nil {
						time.Sleep(50 * time.Millisecond)
					}
				}
			}()
		}
	}
	group.Wait()
	var sum int
	var err error
	for _, address := range addresses {
		client := clientOf(address, 0)
		if sum, err = client.Get(background, "go:count").Int(); err == nil {
			break
		}
	}
	note := fmt.Sprintf("%d answered, %d not, sum %d", answered, unknown, sum)
	if err != nil {
		return note, err
	}
	if sum < answered || sum > answered+unknown {
		return note, fmt.Errorf("increments are lost or counted twice: %s", note)
	}
	if answered < 100 || time.Since(last) > 5*time.Second {
		return note, fmt.Errorf("clients were not served again: %s", note)
	}
	return note, nil
}

func main() {
	addresses := strings.Split(os.Args[1], ",")
	nodes := []*redis.Client{}
	for _, address := range addresses {
		nodes = append(nodes, clientOf(address, 0))
	}
	ok := true
	for _, one := range []struct {
		name string
		run  func([]*redis.Client) error
	}{
		{"strings, hashes, sorted sets, streams", types},
		{"a pipeline of 500 increments", pipelines},
		{"WATCH, MULTI, EXEC through three nodes lose nothing", swaps},
		{"a message from one node to another", subscriptions},
		{"EVALSHA, and EVAL where it is not known", scripts},
	} {
		ok = tell(one.name, one.run(nodes), "") && ok
	}
	note, err := counting(addresses)
	ok = tell("no answered increment is lost when the leader is killed", err, note) && ok
	if !ok {
		os.Exit(1)
	}
}
