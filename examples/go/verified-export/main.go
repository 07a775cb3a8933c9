// Command verified-export writes a party's ledger of an asset to a CSV file that is complete:
// go run ./verified-export PARTY ASSET FILE
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"

	"marketd.example/marketd"
	apiv2 "marketd.example/marketd/gen/datanode/api/v2"
)

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: go run ./verified-export PARTY ASSET FILE")
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		log.Fatal(err)
	}
}

func run(party, asset, path string) error {
	client := marketd.NewClient(cmp.Or(os.Getenv("MARKETD"), "http://127.0.0.1:8080"))
	// The file gets its name when it is known to be complete.
	file, err := os.Create(path + ".part")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	request := &apiv2.ExportLedgerEntriesRequest{PartyId: party, AssetId: asset}
	summary, err := marketd.ExportLedger(context.Background(), client, request, file)
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return err
	}
	fmt.Printf("%d rows, sum of effects %v\n", summary.Rows, summary.SumOfEffects)
	fmt.Println("SHA-256", summary.SHA256)
	return nil
}
