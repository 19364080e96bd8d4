import { sampled } from "@berth/testing/sampled"
import { BACKENDS, describeOn } from "../backends.ts"
import { silentStops } from "./silent-stops.ts"
import { engineOf, worldOfFile } from "./world.ts"

describeOn(
  sampled("backends of stops on silent sandboxes", BACKENDS, 1),
  "stops on silent sandboxes",
  (backend) =>
    silentStops(
      worldOfFile(() => engineOf(backend)),
      backend,
      1,
    ),
)
