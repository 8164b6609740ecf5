// Package options has what the programs of this folder have in common: the arguments, and TLS.
//
// A program writes a record to a topic, and reads it in a group. It prints "read LENGTH", or an error and ends with
// status 1.
package options

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// Value of the record, which fills several records of TLS.
var Value = strings.Repeat("v", 100_000)

// Options are given as JSON, in the only argument. Without a mechanism the client has a certificate.
type Options struct {
	Server      string `json:"server"`
	Mechanism   string `json:"mechanism"`
	User        string `json:"user"`
	Password    string `json:"password"`
	Authority   string `json:"authority"`
	Certificate string `json:"certificate"`
	Key         string `json:"key"`
	Topic       string `json:"topic"`
	Group       string `json:"group"`
}

// Run calls a program with its options, and prints what came of it.
func Run(program func(context.Context, Options, *tls.Config) (string, error)) {
	var options Options
	check(json.Unmarshal([]byte(os.Args[1]), &options))
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	config, err := options.tls()
	check(err)
	value, err := program(ctx, options, config)
	check(err)
	fmt.Println("read", len(value))
}

func (o Options) tls() (*tls.Config, error) {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(o.Authority))
	config := &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"}
	if o.Certificate != "" {
		pair, err := tls.X509KeyPair([]byte(o.Certificate), []byte(o.Key))
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

func check(err error) {
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}
