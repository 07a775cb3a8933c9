import type { LaneOptions, RequestLane } from "../lane.js";

/**
 * gRPC, gRPC-Web and Connect for every method of an api, in both HTTP versions, with reflection and health.
 *
 * Matches when the path is a method's, or when the content type says gRPC, whatever the path; never OPTIONS: preflights
 * are the server's.
 */
export function createConnectHandler(_options: LaneOptions): RequestLane {
  return { matches: () => false, handle: (_request, response) => response.end() };
}
