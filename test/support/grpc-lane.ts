/**
 * Whether this run is of our own gRPC lane, or of Connect's. vitest.config.ts runs every test that speaks gRPC once on
 * each, and says which as an operator would: so processes that a test starts are on the run's lane as well.
 */
export const grpcLane = process.env["MARKETD_GRPC_LANE"] !== "off";
