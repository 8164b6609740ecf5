// franz-go with TLS and a login.
package main

import (
	"context"
	"crypto/tls"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"example.org/secured/options"
)

func mechanism(o options.Options) sasl.Mechanism {
	switch o.Mechanism {
	case "PLAIN":
		return plain.Auth{User: o.User, Pass: o.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: o.User, Pass: o.Password}.AsSha256Mechanism()
	default:
		return scram.Auth{User: o.User, Pass: o.Password}.AsSha512Mechanism()
	}
}

func run(ctx context.Context, o options.Options, config *tls.Config) (string, error) {
	settings := []kgo.Opt{
		kgo.SeedBrokers(o.Server),
		kgo.DialTLSConfig(config),
		kgo.ConsumeTopics(o.Topic),
		kgo.ConsumerGroup(o.Group),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.RecordRetries(3),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
	}
	if o.Mechanism != "" {
		settings = append(settings, kgo.SASL(mechanism(o)))
	}
	client, err := kgo.NewClient(settings...)
	if err != nil {
		return "", err
	}
	defer client.Close()
	if err := client.Ping(ctx); err != nil {
		return "", err
	}
	record := &kgo.Record{Topic: o.Topic, Value: []byte(options.Value)}
	if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
		return "", err
	}
	for {
		fetches := client.PollFetches(ctx)
		for _, failed := range fetches.Errors() {
			return "", failed.Err
		}
		for _, record := range fetches.Records() {
			return string(record.Value), nil
		}
	}
}

func main() { options.Run(run) }
