//go:build details

package main

import _ "google.golang.org/genproto/googleapis/rpc/errdetails"
