/** The one thing that all rooms below share: errors that have a Python side; driver and executor JVM. */
package org.headrace.spark;
