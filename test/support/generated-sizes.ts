import { configureGlobal } from "fast-check";

// Lists and texts are as long as their `maxLength` allows; by default fast-check makes at most ten elements of one.
configureGlobal({ defaultSizeToMaxWhenMaxSpecified: true });
